"""The incidents of a group are the same, whether one agent reads its files or an agent each."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from agent.cli import main
from aggregation.incidents.incidents import analyze, latest_time
from aggregation.incidents.model import Incident
from metrics.model.sample import Sample, SampleKind, decode, format_time, parse_time

_RECORDED = Path(__file__).parents[2] / "golden" / "apart"
_AFTER_S = 20.0
"""How much longer the agents live: each still has its members at 0 then."""


def read(*files: Path) -> list[Sample]:
    """Return the records of one agent that reads these files."""
    sources = [f"{_kind(path)}:{path}" for path in files]
    found = CliRunner().invoke(main, ["replay", "--timezone", "UTC", "--signals", *sources])
    assert found.exit_code == 0, found.output
    return [decode(line) for line in found.stdout_bytes.splitlines()]


def _kind(path: Path) -> str:
    if path.name.startswith("server"):
        return "broker_log"
    return "pcap" if path.name.startswith("wire") else "logs"


def read_apart(*files: Path) -> list[Sample]:
    """Return the records of an agent for each file, and a last periodic sample of each agent."""
    by_agent = {
        path.name: [replace(each, agent=path.name) for each in read(path)] for path in files
    }
    found = [record for records in by_agent.values() for record in records]
    end = format_time(max(parse_time(record.ts) for record in found) + _AFTER_S)
    for agent, records in by_agent.items():
        first = next(record for record in records if record.client_id)
        alive = replace(first, kind=SampleKind.SAMPLE, id=agent, ts=end, from_=None, to=0, peak=0)
        found.append(replace(alive, member_id=None, episode=None, outcome=None, reason=None))
    return found


def summarize(incident: Incident) -> tuple[object, ...]:
    members = sorted(member.client_id for member in incident.members)
    went = sorted((each.member.client_id, each.how) for each in incident.departures)
    waits = sorted(wait.member.client_id for wait in incident.waiting_for)
    return incident.kind, members, went, waits, len(incident.rebalances), incident.is_ongoing


@pytest.mark.parametrize("case", sorted(path.name for path in _RECORDED.iterdir() if path.is_dir()))
def test_incidents_are_those_of_one_agent(case: str) -> None:
    files = sorted((_RECORDED / case).iterdir())
    together = analyze(read(*files)).incidents
    apart = analyze(read_apart(*files)).incidents

    assert len(together) > 2
    assert list(map(summarize, apart)) == list(map(summarize, together))


def shift_logs(records: list[Sample], ahead_s: Sequence[float]) -> list[Sample]:
    """Return what the agents of clients' logs send from hosts with other clocks."""
    logs = sorted({each.agent for each in records} - {"wire.pcap.gz", "server-1.log.gz"})
    return [
        _shift(record, ahead_s[logs.index(record.agent)]) if record.agent in logs else record
        for record in records
    ]


def _shift(record: Sample, seconds: float) -> Sample:
    def move(ts: str) -> str:
        return format_time(parse_time(ts) + seconds)

    joined = record.joined_ts
    return replace(record, ts=move(record.ts), joined_ts=None if joined is None else move(joined))


@pytest.mark.parametrize("ahead_s", [(3.0, -20.0, 0.0), (-20.0, 0.0, 3.0), (120.0, 0.0, -3600.0)])
@pytest.mark.parametrize("case", ["kafka-go", "kafkajs", "slow-polls"])
def test_incidents_do_not_depend_on_clocks(case: str, ahead_s: Sequence[float]) -> None:
    records = read_apart(*sorted((_RECORDED / case).iterdir()))
    now = latest_time(records)
    right = analyze(records, now=now).incidents
    wrong = analyze(shift_logs(records, ahead_s), now=now).incidents

    assert list(map(summarize, wrong)) == list(map(summarize, right))
    starts = [pytest.approx(each.started_at, abs=1) for each in right]
    assert [each.started_at for each in wrong] == starts


@pytest.mark.parametrize("case", sorted(path.name for path in _RECORDED.iterdir() if path.is_dir()))
def test_costs_are_those_of_one_agent(case: str) -> None:
    files = sorted((_RECORDED / case).iterdir())
    records = read_apart(*files)
    now = latest_time(records)
    together = [each.cost for each in analyze(read(*files), now=now).incidents]
    apart = [each.cost for each in analyze(records, now=now).incidents]

    moved = [each.partitions_moved for each in together]
    assert [each.partitions_moved for each in apart] == moved
    assert any(moved) or not (_RECORDED / case / "wire.pcap.gz").exists()
    for one, other in zip(together, apart, strict=True):
        assert other.unread_partition_seconds == pytest.approx(one.unread_partition_seconds, abs=1)
        assert other.member_seconds == pytest.approx(one.member_seconds, abs=1)


@pytest.mark.parametrize("case", ["kafka-go", "kafkajs"])
def test_sources_of_the_group_are_not_missing(case: str) -> None:
    """A cause that only one source shows is no sign that the group lacks the others."""
    files = sorted((_RECORDED / case).iterdir())
    together = [each.missing for each in analyze(read(*files)).incidents]
    apart = [each.missing for each in analyze(read_apart(*files)).incidents]

    assert apart == together
    assert {"logs", "wire"}.isdisjoint(source for missing in together for source in missing)
