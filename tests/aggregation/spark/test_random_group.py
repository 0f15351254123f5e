"""Random histories: a report by day, a whole history, `explain` and the truth have one answer."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from agent.cli.explain import explain
from aggregation.incidents.answers import answer_of
from aggregation.incidents.incidents import analyze
from metrics.model.sample import encode, parse_time
from tests.aggregation.spark.random_group import RandomGroup, Truth
from tests.aggregation.spark.rollups.test_daily_incidents import by_days

SEEDS = [*range(5), *(pytest.param(seed, marks=pytest.mark.field) for seed in range(5, 30))]


def outline(answers: Iterable[Mapping[str, Any]]) -> list[Truth]:
    """Return what a truth has of incidents as `explain` prints them."""
    return sorted(
        Truth(
            parse_time(each["started_at"]),
            each["kind"],
            tuple(sorted(member["client_id"] for member in each["members"])),
            len(each["rebalances"]),
            each["cost"]["member_seconds"],
        )
        for each in answers
    )


def same(found: Sequence[Truth], wanted: Sequence[Truth]) -> None:
    """Check incidents; times to a millisecond."""
    assert [each[1:4] for each in found] == [each[1:4] for each in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one.started_at == pytest.approx(other.started_at, abs=2e-3), other
        assert one.member_s == pytest.approx(other.member_s, abs=2e-3), other


@pytest.mark.parametrize("seed", SEEDS)
def test_incidents_of_a_random_history_are_the_truth(seed: int, tmp_path: Path) -> None:
    group = RandomGroup(seed)
    wanted = sorted(group.truth)

    same(outline(builtins(analyze(group.samples).incidents)), wanted)
    same(outline(builtins(by_days(group.samples))), wanted)
    (tmp_path / "s.jsonl").write_bytes(b"".join(map(encode, group.samples)))
    arguments = ["g", "--from", str(tmp_path), "--output", "json", "--last", "1000"]
    done = CliRunner().invoke(explain, arguments)
    assert done.exit_code == 0, done.output
    same(outline(json.loads(done.stdout)["incidents"]), wanted)


def builtins(incidents: Iterable[Any]) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(answer_of(each)) for each in incidents]
