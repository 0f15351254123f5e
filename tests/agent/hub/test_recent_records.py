"""The records that an agent restores from its spool."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from agent.hub.recent_records import MAX_CHANGE_CHARS, RecentRecords, read_spool
from metrics.model.sample import Sample, SampleKind, encode, parse_time
from tests.aggregation.rebalances.test_rebalances import START, records

NO_CODE = encode(msgspec.structs.replace(records(*START)[0], to=14)).strip()


@pytest.mark.parametrize(
    "malformed", [b"\0" * 9, b'{"id":"\xff"}', b'{"x":' + b"[" * 100_000, NO_CODE]
)
def test_what_is_no_record_is_left_out(tmp_path: Path, malformed: bytes) -> None:
    known = records(*START)
    lines = [encode(record).strip() for record in known]
    (tmp_path / "1.jsonl").write_bytes(b"\n".join([malformed, *lines, b""]))

    assert sorted(each.id for each in read_spool(tmp_path)) == sorted(each.id for each in known)


def change(field: str, after: str) -> Sample:
    """Return a record of a member's changed attribute, from an agent of any kind."""
    first = records(*START)[0]
    return msgspec.structs.replace(
        first, kind=SampleKind.CHANGE, subject="member", field=field, before=after, after=after
    )


def numbered(records: Iterable[Sample]) -> list[Sample]:
    """Give each record an id of its own."""
    return [msgspec.structs.replace(each, id=str(n)) for n, each in enumerate(records)]


def test_values_of_changes_are_bounded_in_bytes_and_the_oldest_go_first() -> None:
    recent = RecentRecords()
    long = numbered(change("partitions", f"{number:06}:" + "x" * 250_000) for number in range(100))

    recent.add(long, now=1.0)

    kept = recent.records()
    assert sum(2 * len(each.after or "") for each in kept) <= MAX_CHANGE_CHARS
    assert kept == long[-len(kept) :] != []
    assert recent.added == len(long)


def test_a_short_text_that_names_many_partitions_counts_as_these() -> None:
    """A thousand records of 12 bytes took a minute and gigabytes to analyse."""
    recent = RecentRecords()
    short = numbered(change("partitions", f"t{number:04}:0-99999") for number in range(1_000))

    recent.add(short, now=1.0)

    assert recent.records() == short[-2:]
    assert recent.added == len(short)


def test_names_of_changed_groups_are_as_many_as_records() -> None:
    """A sidecar has no recorder that takes them: each group that ever was stayed."""
    recent = RecentRecords(max_records=1_000)
    for number in range(5_000):
        one = change("software", "java")
        one = msgspec.structs.replace(one, group=f"g{number}", id=str(number))
        recent.add([one], now=float(number))

    assert len(recent._changed_at) == 1_000
    found = recent.take_quiet(1e9, quiet_s=1.0)

    assert [each.group for each in found] == [f"g{number}" for number in range(4_000, 5_000)]


def test_limits_that_were_frozen_grow_again() -> None:
    recent = RecentRecords(max_records=5_000)
    made = numbered(change("software", "java") for _ in range(3_000))
    recent.add(made[:2_000], now=1.0)
    recent.freeze_limits()
    recent.add(made[2_000:2_500], now=2.0)
    assert len(recent.records()) == 2_000

    recent.restore_limits()
    recent.add(made[2_500:], now=3.0)
    assert len(recent.records()) == 2_500


@pytest.mark.parametrize(
    ("field", "after"),
    [
        ("session.timeout.ms", "\N{SUPERSCRIPT TWO}"),
        ("max.poll.interval.ms", "9" * 5000),
        ("lag", "\N{SUPERSCRIPT THREE}"),
        ("partitions", "t:0-9999999999"),
        ("partitions", "t:\N{SUPERSCRIPT TWO}"),
        ("removed_by", "{" * 100_000),
        ("version", "\ud800"),
        ("silent.ms", "yesterday"),
        ("silent.ms", "\N{SUPERSCRIPT TWO}"),
    ],
)
def test_a_hostile_value_of_a_change_stops_no_analysis(field: str, after: str) -> None:
    found = [*records(*START), change(field, after)]
    recent = RecentRecords(found)

    analysis = recent.analyze(found, 1.9e9)

    assert len(analysis.incidents) == len(recent.analyze(records(*START), 1.9e9).incidents)


def test_a_record_of_a_clock_that_is_years_ahead_is_no_rebalance_under_way() -> None:
    first, *rest = records(*START)
    ahead = msgspec.structs.replace(first, id="ahead", ts="2036-01-01T00:00:00.000000Z")
    now = parse_time(first.ts) + 60.0
    recent = RecentRecords([first, ahead], now=now)

    recent.add([*rest, ahead], now)

    assert recent.records() == [first, *rest]


def test_records_that_are_sent_again_push_out_no_others() -> None:
    """A spool with a new id is sent again from its start."""
    others = [change("software", f"{number}") for number in range(3)]
    others = [msgspec.structs.replace(each, id=f"o{n}") for n, each in enumerate(others)]
    again = [msgspec.structs.replace(each, id=f"a{n}", agent="b") for n, each in enumerate(others)]
    recent = RecentRecords(max_records=6)
    recent.add([*others, *again], now=1.0)

    recent.add([msgspec.structs.replace(each, agent="b/new") for each in again], now=2.0)

    assert recent.records() == [*others, *again]
    assert recent.added == 6


def test_evicted_record_may_come_again() -> None:
    one, other = (msgspec.structs.replace(change("software", n), id=n) for n in "12")
    recent = RecentRecords(max_records=1)
    recent.add([one, other], now=1.0)

    recent.add([one], now=2.0)

    assert recent.records() == [one]
