import dataclasses
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aggregation.live.fleet import GONE_S, SILENT_S, Fleet
from metrics.model.sample import Sample, Scope
from metrics.model.signals import Signal, SignalKind, SourceKind
from metrics.model.snapshot import MemberRow
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.metrics.given import C1, C2, T1, demand, failed, left, raised, run, signal, synced

CONFIG = StatusConfig()


def got(*signals: Signal) -> list[Sample]:
    return run(Tracker(CONFIG), *signals)


def held_by(members: Fleet, now: float, scope: Scope = Scope.CONSUMER) -> list[MemberRow]:
    return list(members.rows(scope, now))


def after(records: Iterable[Sample], now: float, spool: str = "s") -> Fleet:
    members = Fleet(CONFIG)
    members.record_contact(spool, now)
    for record in records:
        members.apply(spool, record)
    return members


def test_status_follows_the_agents_records() -> None:
    (row,) = held_by(after(got(raised(2, 10.0), raised(6, 11.0, reason="why")), 12.0), 12.0)

    assert (row.status, row.peak, row.since_at, row.reason) == (6, 6, 11.0, "why")
    assert (row.client_id, row.group, row.host) == ("c1", "g", "h")


def test_peak_is_remembered_and_passes() -> None:
    members = after(got(raised(8, 10.0), synced(11.0)), 11.0)

    assert [(row.status, row.peak) for row in held_by(members, 12.0)] == [(0, 8)]
    members.record_contact("s", 200.0)
    assert [(row.status, row.peak) for row in held_by(members, 200.0)] == [(0, 0)]


def test_leave_lingers_and_then_the_member_is_forgotten() -> None:
    members = after(got(left(10.0)), 10.0)
    shown = []
    for now in (11.0, 71.0, 310.0):
        members.record_contact("s", now)
        shown.append([int(row.status) for row in held_by(members, now)])

    assert shown == [[6], [0], []]


def test_reason_of_an_end_is_shown_as_its_agent_shows_it() -> None:
    tracker = Tracker(CONFIG)
    closed = run(tracker, raised(6, 10.0, reason="closing"), left(10.5, reason="closed"))
    refused = run(tracker, raised(2, 11.0, C2), failed(11.5, C2, reason="not allowed"))
    (shown, other) = sorted(
        held_by(after([*closed, *refused], 12.0), 12.0), key=lambda row: row.client_id
    )

    assert (shown.status, shown.reason) == (6, "closed")
    assert (other.status, other.reason) == (0, "not allowed")
    assert [shown.reason, other.reason] == [row.reason for row in tracker.snapshot(12.0).consumers]


def test_attributes_of_a_member_are_those_of_its_last_changes() -> None:
    java = replace(C1, software="apache-kafka-java 4.3.0", assignor="range")
    upgraded = replace(
        java, assignor="cooperative-sticky", assignors=("cooperative-sticky", "range")
    )
    before = replace(java, assignors=("range",))
    records = got(raised(2, 10.0, before), synced(11.0, before), raised(1, 20.0, upgraded))
    (row,) = held_by(after(records, 21.0), 21.0)

    assert (row.software, row.assignor) == ("apache-kafka-java 4.3.0", "cooperative-sticky")
    assert row.assignors == ("cooperative-sticky", "range")


def test_attributes_of_a_protocol_end_with_it() -> None:
    java = replace(C1, software="apache-kafka-java 4.3.0", assignor="range")
    migrated = replace(C1, software="apache-kafka-java 4.3.0", group_type="consumer")
    records = got(raised(2, 10.0, java), synced(11.0, java), raised(2, 20.0, migrated))
    (row,) = held_by(after(records, 21.0), 21.0)

    assert (row.software, row.assignor) == ("apache-kafka-java 4.3.0", None)


def test_attributes_of_one_agent_fill_those_of_the_others() -> None:
    java = replace(C1, member_id="m-1", software="apache-kafka-java 4.3.0")
    wire = replace(C1, member_id="m-1", host="10.0.0.1", assignor="range")
    members = after(got(raised(2, 10.0, java), synced(11.0, java)), 12.0)
    members.record_contact("wire", 12.0)
    for record in got(
        *(
            replace(each, source=SourceKind.WIRE)
            for each in (raised(2, 10.0, wire), synced(11.0, wire))
        )
    ):
        members.apply("wire", record)
    (row,) = held_by(members, 12.0)

    assert (row.software, row.assignor) == ("apache-kafka-java 4.3.0", "range")


def test_record_of_a_clock_that_is_ahead_is_of_its_arrival() -> None:
    """A leave of 2036 was shown as 6, and its peak remembered, until then."""
    members = after(got(raised(8, 10.0), synced(9_000.0), left(9_001.0)), 10.0)
    shown = []
    for now in (11.0, 71.0, 200.0, 310.0):
        members.record_contact("s", now)
        shown.append([(int(row.status), int(row.peak)) for row in held_by(members, now)])

    assert shown == [[(6, 6)], [(0, 6)], [(0, 0)], []]


def test_lost_status_is_no_series() -> None:
    tracker = Tracker(CONFIG)
    records = [*run(tracker, raised(2, 10.0)), *tracker.advance(2_000.0)]

    assert held_by(after(records, 2_000.0), 2_000.0) == []


def test_end_of_an_episode_is_its_end_for_all_that_report_it() -> None:
    """A spool with a new id is sent again, and its end comes under that id alone."""
    (began, ended) = got(raised(8, 10.0), synced(20.0))[:2]
    members = after([began], 15.0, "before")
    members.record_contact("now", 21.0)
    members.apply("now", began)
    shown = [[int(row.status) for row in held_by(members, 15.0)]]
    members.apply("now", ended)

    shown.append([int(row.status) for row in held_by(members, 21.0)])
    members.apply("before", began)
    shown.append([int(row.status) for row in held_by(members, 21.0)])
    assert shown == [[8], [0], [0]]


def test_silent_agent_takes_its_rows_along() -> None:
    members = after(got(raised(2, 10.0)), 10.0)

    assert held_by(members, 10.0 + SILENT_S - 1)
    assert held_by(members, 10.0 + SILENT_S) == []
    assert [key.group for key in members.groups()] == ["g"]


def test_group_of_silent_agents_is_unseen_and_then_forgotten() -> None:
    members = after(got(raised(2, 10.0)), 10.0)

    assert members.unseen(10.0 + SILENT_S - 1) == set()
    assert members.unseen(10.0 + SILENT_S) == {("k", "g")}
    assert held_by(members, 10.0 + GONE_S) == []
    assert (members.unseen(10.0 + GONE_S), members.groups()) == (frozenset(), ())


def test_group_whose_members_left_is_not_unseen_when_their_agent_goes() -> None:
    members = after(got(synced(9.0), left(10.0)), 10.0)

    assert members.unseen(10.0 + SILENT_S) == set()
    assert held_by(members, 10.0 + GONE_S) == []
    assert [key.group for key in members.groups()] == ["g"]


def test_agent_that_comes_back_has_its_statuses_again() -> None:
    members = after(got(raised(2, 10.0)), 10.0)
    held_by(members, 10.0 + SILENT_S)

    members.record_contact("s", 1_000.0)

    assert [(row.status, row.since_at) for row in held_by(members, 1_000.0)] == [(2, 10.0)]


def test_agent_that_never_comes_back_is_forgotten() -> None:
    members = after(got(raised(2, 10.0)), 10.0)
    held_by(members, 10.0 + GONE_S)

    members.record_contact("s", 11.0 + GONE_S)

    assert held_by(members, 11.0 + GONE_S) == []


def test_periodic_sample_tells_a_status_whose_beginning_was_not_heard() -> None:
    tracker = Tracker(CONFIG)
    run(tracker, raised(2, 10.0, reason="why"))
    members = after(tracker.sample(30.0, 15.0), 30.0)

    assert [(row.status, row.reason) for row in held_by(members, 30.0)] == [(2, "why")]
    for record in run(tracker, synced(31.0)):
        members.apply("s", record)
    assert [int(row.status) for row in held_by(members, 31.0)] == [0]


def test_two_that_one_agent_cannot_tell_apart_are_their_max() -> None:
    twin = replace(C1, origin="other.log")
    members = after(got(raised(2, 10.0), raised(6, 11.0, twin), synced(12.0)), 12.0)
    still = after(got(raised(6, 10.0), raised(2, 11.0, twin), synced(12.0)), 12.0)

    assert [int(row.status) for row in held_by(members, 12.0)] == [6]
    assert [int(row.status) for row in held_by(still, 12.0)] == [2]


def test_the_same_member_of_two_agents_is_one_row_their_max() -> None:
    members = after(got(raised(2, 10.0)), 10.0, "a")
    members.record_contact("b", 10.0)
    for record in got(raised(6, 10.0)):
        members.apply("b", record)

    assert [int(row.status) for row in held_by(members, 10.0)] == [6]


def test_two_members_of_one_name_and_two_agents_are_two() -> None:
    """Two containers with one host's name, and Java's default client id; each has its agent."""
    one, other = (replace(C1, client_id="consumer-g-1", member_id=each) for each in ("m-1", "m-2"))
    members = after(got(raised(2, 10.0, one), synced(11.0, one), left(20.0, one)), 21.0, "a")
    tracker = Tracker(CONFIG)
    there = run(tracker, raised(2, 12.0, other), synced(13.0, other))
    shown = []
    for now in (21.0, 100.0, 400.0):
        for spool in ("a", "b"):
            members.record_contact(spool, now)
        for record in [*there, *tracker.sample(now, 15.0)]:
            members.apply("b", record)
        there = []
        shown.append(sorted((row.member_id, int(row.status)) for row in held_by(members, now)))

    assert shown == [[("m-1", 6), ("m-2", 0)], [("m-1", 0), ("m-2", 0)], [("m-2", 0)]]


def test_log_that_goes_on_is_of_a_member_that_has_not_left() -> None:
    """Logs of some clients name no member id, so two of one name cannot be distinguished."""
    members = after(got(raised(2, 10.0), synced(11.0), left(20.0)), 21.0, "a")
    tracker = Tracker(CONFIG)
    there = run(tracker, raised(2, 12.0), synced(13.0))
    shown = []
    for now in (21.0, 100.0, 400.0):
        for spool in ("a", "b"):
            members.record_contact(spool, now)
        for record in [*there, *tracker.sample(now, 15.0)]:
            members.apply("b", record)
        there = []
        shown.append([int(row.status) for row in held_by(members, now)])

    assert shown == [[6], [0], [0]]


def test_member_that_joins_anew_is_one_for_all_its_agents() -> None:
    before, now = (replace(C1, member_id=each) for each in ("m-1", "m-2"))
    members = after(got(raised(2, 10.0, before), synced(11.0, before)), 22.0, "late")
    members.record_contact("soon", 22.0)
    for record in got(raised(2, 10.0, before), synced(11.0, before), raised(2, 21.0, now)):
        members.apply("soon", record)

    assert [(row.member_id, int(row.status)) for row in held_by(members, 22.0)] == [("m-1", 2)]


def test_instances_are_apart_from_consumers() -> None:
    probing = signal(SignalKind.SYNC, 11.0, T1, layer=demand(11, 11.0, 60.0))
    members = after(got(raised(1, 10.0, T1), probing), 12.0)

    assert [int(row.status) for row in held_by(members, 12.0)] == [0]
    assert [int(row.status) for row in held_by(members, 12.0, Scope.STREAMS)] == [11]


def test_members_are_bounded_the_longest_silent_goes() -> None:
    members = Fleet(dataclasses.replace(CONFIG, members=1))
    members.record_contact("s", 10.0)
    for record in got(raised(2, 10.0), raised(2, 11.0, C2)):
        members.apply("s", record)

    assert [row.client_id for row in held_by(members, 12.0)] == ["c2"]
    assert members.evicted == 1


def test_state_survives_json() -> None:
    members = after(got(raised(8, 10.0), synced(11.0), raised(2, 12.0), left(12.5, C2)), 13.0)
    saved = msgspec.json.decode(msgspec.json.encode(members.state()))

    assert held_by(Fleet(CONFIG, saved), 13.0) == held_by(members, 13.0)


def test_state_of_an_earlier_release_is_read() -> None:
    members = after(got(raised(8, 10.0), synced(11.0), raised(2, 12.0), left(12.5, C2)), 13.0)
    saved = msgspec.json.decode(msgspec.json.encode(members.state()))
    new = {"source", "ids", "active_at", "seen_at", "first_at", "removed", "synced_at", "synced_in"}
    new |= {"reason", "attributes", "ended", "confirmed_at", "lost_at", "lost_status"}
    for _, row in saved["rows"]:
        row["open"] = {name: held[:3] for name, held in row["open"].items()}
        for name in new:
            del row[name]

    assert held_by(Fleet(CONFIG, saved), 13.0) == held_by(members, 13.0)


@given(st.lists(st.tuples(st.integers(0, 10), st.sampled_from([C1, C2])), max_size=30))
def test_hub_shows_what_the_agent_shows(codes: list[tuple[int, object]]) -> None:
    tracker, records = Tracker(CONFIG), list[Sample]()
    for second, (code, member) in enumerate(codes):
        at = 10.0 + second
        if code == 0:
            records += run(tracker, synced(at, member))  # type: ignore[arg-type]
        elif code == 9:
            records += run(tracker, failed(at, member, f"failed at {at}"))  # type: ignore[arg-type]
        else:
            records += run(tracker, raised(code, at, member, reason=f"raised at {at}"))  # type: ignore[arg-type]
    now = 10.0 + len(codes)

    hub = {row.client_id: _shown(row) for row in held_by(after(records, now), now)}
    agent = {row.client_id: _shown(row) for row in tracker.snapshot(now).consumers}

    assert hub == {name: shown for name, shown in agent.items() if name in hub}
    assert all(shown[:2] == (0, 0) for name, shown in agent.items() if name not in hub)


def _shown(row: MemberRow) -> tuple[int, int, str | None]:
    return row.status, row.peak, row.reason


@pytest.mark.parametrize("scope", [Scope.GROUP, Scope.APP])
def test_records_of_whole_groups_are_no_members(scope: Scope) -> None:
    (record,) = got(raised(2, 10.0))
    members = after([msgspec.structs.replace(record, scope=scope)], 10.0)

    assert held_by(members, 10.0) == []
