"""Session timeouts in force: a member's in the classic protocol, the broker's in the others."""

import pytest
from msgspec.structs import replace

from aggregation.incidents.attributes import Attributes
from aggregation.incidents.model import DepartureMode, MemberDeparture
from aggregation.rebalances.segments import MemberRef
from metrics.model.sample import Sample, SampleKind, Scope, format_time

M1 = MemberRef("m1", "h")
AT = 1_000.0


def change(field: str, after: str, group_type: str, *, is_of_group: bool = False) -> Sample:
    """Return a record of a changed attribute of a member, or of the group."""
    found = Sample(
        id=f"{field}-{after}-{group_type}",
        kind=SampleKind.CHANGE,
        ts=format_time(AT - 100.0),
        cluster="k",
        app="g",
        group="g",
        group_type=group_type,
        scope=Scope.GROUP if is_of_group else Scope.CONSUMER,
        client_id=None if is_of_group else M1.client_id,
        host="" if is_of_group else M1.host,
        field=field,
        after=after,
        source="admin" if is_of_group else "logs",
    )
    return replace(found, subject="group" if is_of_group else "member")


def attributes(*changes: Sample) -> Attributes:
    found = Attributes()
    for each in changes:
        found.add(each)
    return found


PRINTED = change("session.timeout.ms", "20000", "classic")
OWNED = change("partitions", "t:0", "consumer")


def test_member_that_was_assigned_something_was_alive_then() -> None:
    """The session timeout in force is shorter than the broker's default; no source shows it."""
    expired = MemberDeparture(member=M1, how=DepartureMode.EXPIRED, at=AT - 90.0, is_silent=True)
    assert attributes(OWNED).stop_of(expired) == AT - 100.0


@pytest.mark.parametrize(
    ("changes", "seen_s", "counted_s"),
    [
        ((PRINTED,), 20.0, 20.0),
        ((PRINTED, OWNED), None, 45.0),
        ((OWNED, replace(PRINTED, group_type="consumer")), None, 45.0),
        (
            (OWNED, change("consumer.session.timeout.ms", "60000", "consumer", is_of_group=True)),
            60.0,
            60.0,
        ),
    ],
)
def test_silent_member_stopped_its_session_timeout_before_it_expired(
    changes: tuple[Sample, ...], seen_s: float | None, counted_s: float
) -> None:
    expired = MemberDeparture(member=M1, how=DepartureMode.EXPIRED, at=AT, is_silent=True)
    found = attributes(*changes)
    assert found.session_of(M1.key, AT) == seen_s
    assert found.stop_of(expired) == AT - counted_s
    assert found.assumes_session(expired) == (seen_s is None)


@pytest.mark.parametrize(
    ("how", "shown", "timeout"),
    [
        (DepartureMode.EXPIRED, (), "session.timeout.ms"),
        (DepartureMode.EXPIRED, (PRINTED,), None),
        (DepartureMode.EXPIRED, (OWNED,), None),  # the broker's default is assumed
        (DepartureMode.DROPPED, (PRINTED,), "max.poll.interval.ms"),
        (DepartureMode.DROPPED, (change("max.poll.interval.ms", "9000", "classic"),), None),
        (DepartureMode.LEFT, (), None),
    ],
)
def test_timeout_that_nobody_shows_makes_a_cost_the_least_one(
    how: DepartureMode, shown: tuple[Sample, ...], timeout: str | None
) -> None:
    went = MemberDeparture(member=M1, how=how, at=AT, is_silent=True)
    assert attributes(*shown).unknown_timeout_of(went) == timeout


@pytest.mark.parametrize("expired_at", [None, AT + 5.0])
def test_member_whose_successor_came_first_rests_on_the_default_too(
    expired_at: float | None,
) -> None:
    replaced = MemberDeparture(
        member=M1, how=DepartureMode.EXPIRED, at=AT, is_silent=False, expired_at=expired_at
    )
    assert attributes(OWNED).assumes_session(replaced) == (expired_at is not None)


def test_process_that_was_replaced_gives_up_nothing() -> None:
    """Another one took its instance id, and has its partitions; its own close comes later."""
    owned = replace(OWNED, group_instance_id="i1", member_id="first")
    taken = replace(owned, id="2", member_id="second", ts=format_time(AT - 50.0))
    closed = replace(owned, id="3", after="", ts=format_time(AT - 40.0))
    left = replace(taken, id="4", after="", ts=format_time(AT - 20.0))
    found = attributes(owned, taken, closed, left)
    assert [(each.at - AT, len(each.owned)) for each in found.ownership] == [
        (-100.0, 1),
        (-50.0, 1),
        (-20.0, 0),
    ]


@pytest.mark.parametrize(("owned", "stopped_at"), [((), AT - 120.0), ((OWNED,), AT - 100.0)])
def test_successor_that_was_refused_came_before_the_expiry(
    owned: tuple[Sample, ...], stopped_at: float
) -> None:
    """A static member's dead predecessor keeps its place until its session expires."""
    silent = change("silent.ms", "20000", "consumer")
    before = replace(OWNED, id="before", ts=format_time(AT - 130.0))
    expired = MemberDeparture(member=M1, how=DepartureMode.EXPIRED, at=AT - 98.0, is_silent=True)

    found = attributes(before, silent, *owned)

    assert found.stop_of(expired) == stopped_at
    assert found.assumes_session(expired) is bool(owned)


@pytest.mark.parametrize(
    ("revoked_at", "stopped_at"),
    [
        (AT - 19.0, AT - 19.0),  # it closed, or unsubscribed, between two heartbeats
        (AT - 1.0, AT - 20.0),  # it noticed the silence of its coordinator by itself
        (AT + 5.0, AT - 20.0),  # it was frozen, and learned of its removal
    ],
)
def test_expired_member_read_until_it_gave_up_its_partitions(
    revoked_at: float, stopped_at: float
) -> None:
    """A static member sends no leave: its session expires, counted from its last heartbeat."""
    revoked = change("partitions", "", "classic")
    revoked = replace(revoked, id="revoked", ts=format_time(revoked_at))
    expired = MemberDeparture(member=M1, how=DepartureMode.EXPIRED, at=AT, is_silent=True)
    owned = replace(OWNED, group_type="classic")
    assert attributes(PRINTED, owned, revoked).stop_of(expired) == stopped_at
