"""An analysis is freed with its last reference: it leaves nothing to the cycle collector.

The agent collects cycles rarely (`agent.runtime.collector`). Cycles in an analysis of 10,000
members held 14 MiB, so fifty requests one after the other took an agent far over its limit.
"""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import main
from aggregation.explain.explanation import explanations
from aggregation.incidents.answers import answer_of
from aggregation.incidents.incidents import analyze
from aggregation.incidents.records import decode_any
from metrics.model.sample import Sample, parse_time
from tests.aggregation.incidents.test_hostile_histories import AT, HISTORIES, made

_RECORDED = Path(__file__).parents[2] / "golden" / "incidents"
_GROUPS = sorted((_RECORDED / "groups").glob("*.jsonl"), key=lambda path: path.name)
_CASES = sorted({path.parent.name for path in _RECORDED.glob("*/*.log")})


def left_to_the_collector(records: list[Sample]) -> int:
    """Return the number of objects that only the cycle collector frees after an explanation."""

    def answer() -> None:
        now = max((parse_time(each.ts) for each in records), default=AT) + 1.0
        found = analyze(records, lambda _: now, now)
        explanations(found.rebalances, 20, None, found.incidents)
        for incident in found.incidents:
            answer_of(incident)

    answer()  # imports and caches
    gc.collect()
    gc.disable()
    try:
        answer()
        return gc.collect()
    finally:
        gc.enable()


@pytest.mark.parametrize("name", HISTORIES)
def test_analysis_of_a_hostile_history_leaves_no_cycle(name: str) -> None:
    assert left_to_the_collector(made(HISTORIES[name], 40)) == 0


@pytest.mark.parametrize("case", _CASES)
def test_analysis_of_a_recorded_group_leaves_no_cycle(case: str) -> None:
    logs = [str(path) for path in sorted((_RECORDED / case).glob("*.log"))]
    options = ["--source", "logs", "--timezone", "UTC", "--signals"]
    lines = CliRunner().invoke(main, ["replay", *options, *logs]).stdout_bytes.splitlines()

    assert left_to_the_collector([decode_any(line) for line in lines]) == 0


@pytest.mark.parametrize("path", _GROUPS, ids=lambda path: path.stem)
def test_analysis_of_recorded_records_leaves_no_cycle(path: Path) -> None:
    lines = path.read_bytes().splitlines()

    assert left_to_the_collector([decode_any(line) for line in lines]) == 0


@pytest.mark.parametrize("is_enabled", [True, False])
def test_collector_is_as_before_behind_an_analysis(*, is_enabled: bool) -> None:
    def broken() -> Iterator[Sample]:
        assert not gc.isenabled()
        raise ValueError("broken")
        yield

    (gc.enable if is_enabled else gc.disable)()
    try:
        analyze(made(HISTORIES[next(iter(HISTORIES))], 2))
        assert gc.isenabled() is is_enabled
        with pytest.raises(ValueError, match="broken"):
            analyze(broken())
        assert gc.isenabled() is is_enabled
    finally:
        gc.enable()
