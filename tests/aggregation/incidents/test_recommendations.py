"""Recommendations of an incident name the settings of its group's protocol."""

from dataclasses import replace

import pytest

from aggregation.incidents.model import Cost, DepartureMode, Incident, IncidentKind, MemberDeparture
from aggregation.incidents.recommendations import recommend
from aggregation.incidents.settings import ClientKind
from aggregation.rebalances.grouping import GroupRef
from aggregation.rebalances.root_cause import Certainty
from aggregation.rebalances.segments import MemberRef
from metrics.model.sample import format_time

M1, M2 = MemberRef("m1", "h"), MemberRef("m2", "h")
NEW = ["consumer", "share", "streams"]


def settings(kind: IncidentKind, group_type: str, reason: str | None = None) -> set[str | None]:
    found = replace(_incident(kind), group_type=group_type, reason=reason)
    return {each.setting for each in recommend(found)} - {None}


def _incident(kind: IncidentKind) -> Incident:
    return Incident(
        id="i",
        ref=GroupRef("k", "g"),
        kind=kind,
        certainty=Certainty.SEEN,
        started_at=100.0,
        ended_at=160.0,
        is_final=True,
        members=(M1, M2),
    )


@pytest.mark.parametrize("group_type", ["classic", *NEW])
def test_session_timeout_is_the_one_in_force(group_type: str) -> None:
    gone = MemberDeparture(
        member=M1, how=DepartureMode.EXPIRED, at=100.0, returned_at=130.0, is_silent=True
    )
    detail: dict[str, object] = {"since": format_time(55.0)}
    if group_type == "classic":
        detail["session_timeout_ms"] = 45_000
    expired = replace(
        _incident(IncidentKind.SESSION_EXPIRED),
        group_type=group_type,
        departures=(gone,),
        detail=detail,
    )
    first = recommend(expired)[0]
    name, known = "session.timeout.ms", ""
    if group_type != "classic":
        name = f"{group_type}.session.timeout.ms"
        known = " (the broker's default, no source shows this group's)"
    assert (first.setting, first.now, first.proposed) == (name, "45000", "120000")
    assert first.because == f"m1, m2 sent no heartbeat for 75.0 s, and 45 s{known} are allowed."


@pytest.mark.parametrize(
    ("kind", "classic", "consumer"),
    [
        (IncidentKind.RESTART, "group.instance.id", "group.instance.id"),
        (IncidentKind.MEMBER_JOINED, "group.initial.rebalance.delay.ms", None),
        (IncidentKind.METADATA_CHANGED, "metadata.max.age.ms", None),
    ],
)
def test_settings_of_the_classic_protocol_are_for_its_groups_alone(
    kind: IncidentKind, classic: str, consumer: str | None
) -> None:
    assert classic in settings(kind, "classic")
    assert settings(kind, "consumer") == {consumer} - {None}
    assert settings(kind, "share") == settings(kind, "streams") == set()


@pytest.mark.parametrize("group_type", NEW)
def test_size_of_a_group_has_its_type(group_type: str) -> None:
    error = "GROUP_MAX_SIZE_REACHED"
    assert settings(IncidentKind.JOIN_FAILED, "classic", error) == {"group.max.size"}
    assert settings(IncidentKind.JOIN_FAILED, group_type, error) == {f"group.{group_type}.max.size"}


def test_texts_name_the_session_timeout_of_the_group() -> None:
    restart = replace(_incident(IncidentKind.RESTART), group_type="consumer")
    first = recommend(restart)[0]
    assert first.because.endswith("back within consumer.session.timeout.ms.")
    assert first.price == "a member that died is missed only after consumer.session.timeout.ms"


def test_connect_has_settings_of_its_own() -> None:
    """Its workers know no instance ids, and poll within rebalance.timeout.ms."""
    restart = replace(_incident(IncidentKind.RESTART), client_kind=ClientKind.CONNECT)
    assert recommend(restart) == ()
    slow = replace(
        _incident(IncidentKind.POLL_TIMEOUT),
        client_kind=ClientKind.CONNECT,
        detail={"max_poll_interval_ms": 60_000, "between_polls_ms": 90_000},
    )
    found = {each.setting: (each.now, each.proposed) for each in recommend(slow)}
    assert found == {"rebalance.timeout.ms": ("60000", "140000"), None: (None, None)}


def test_streams_has_an_assignor_of_its_own() -> None:
    error = "INCONSISTENT_GROUP_PROTOCOL"
    failed = replace(_incident(IncidentKind.JOIN_FAILED), reason=error)
    assert settings(IncidentKind.JOIN_FAILED, "classic", error) == {"partition.assignment.strategy"}
    streams = replace(failed, client_kind=ClientKind.STREAMS)
    assert {each.setting for each in recommend(streams)} == {None}


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        (IncidentKind.POLL_TIMEOUT, "max.poll.interval.ms"),
        (IncidentKind.RESTART, "group.instance.id"),
        (IncidentKind.ROLLOUT, "group.instance.id"),
    ],
)
def test_waiting_is_not_advised_where_it_leaves_more_unread(
    kind: IncidentKind, setting: str
) -> None:
    detail: dict[str, object] = {"max_poll_interval_ms": 60_000, "between_polls_ms": 90_000}
    found = replace(_incident(kind), detail=detail)

    def advised(away_s: float) -> bool:
        cost = Cost(unread_partition_seconds=30.0, away_partition_seconds=away_s)
        return setting in {each.setting for each in recommend(replace(found, cost=cost))}

    assert setting in {each.setting for each in recommend(found)}
    assert [advised(29.0), advised(31.0)] == [True, False]


@pytest.mark.parametrize(("between_s", "proposed"), [(590, "890000"), (950, None)])
def test_long_work_between_polls_needs_fewer_records(between_s: int, proposed: str | None) -> None:
    """As for the changes that the report computes."""
    slow = replace(
        _incident(IncidentKind.POLL_TIMEOUT),
        detail={"max_poll_interval_ms": 300_000, "between_polls_ms": 1000 * between_s},
    )
    found = {each.setting: each.proposed for each in recommend(slow)}
    assert found["max.poll.interval.ms"] == proposed
    assert "max.poll.records" in found


def test_advice_on_the_same_members_is_the_same_whoever_went_first() -> None:
    incident = _incident(IncidentKind.SESSION_EXPIRED)
    members = MemberRef("a", "h"), MemberRef("b", "h")
    one, other = (
        [each.because for each in recommend(replace(incident, members=order))]
        for order in (members, members[::-1])
    )

    assert one == other
    assert any("a, b" in text for text in one)
