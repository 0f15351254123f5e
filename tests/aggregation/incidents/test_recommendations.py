"""Recommendations of an incident name the settings of its group's protocol."""

from dataclasses import replace

import pytest

from aggregation.incidents.model import (
    Cost,
    DepartureMode,
    Incident,
    IncidentKind,
    MemberDeparture,
    RebalanceSpan,
    RelatedCause,
    Wait,
)
from aggregation.incidents.recommendations import recommend
from aggregation.incidents.settings import ClientKind
from aggregation.rebalances.grouping import GroupRef
from aggregation.rebalances.root_cause import Certainty
from aggregation.rebalances.segments import MemberRef
from metrics.model.sample import format_time

M1, M2 = MemberRef("m1", "h"), MemberRef("m2", "h")
NEW = ["consumer", "share", "streams"]


def settings(kind: IncidentKind, group_type: str, reason: str | None = None) -> set[str | None]:
    found = replace(_incident(kind), group_type=group_type, reason=reason, rebalances=_spans(2))
    return {each.setting for each in recommend(found)} - {None}


def _texts(incident: Incident) -> list[str]:
    return [each.because for each in recommend(incident)]


def _spans(number: int) -> tuple[RebalanceSpan, ...]:
    return tuple(
        RebalanceSpan(
            id=str(n),
            started_at=100.0 + n,
            ended_at=101.0 + n,
            is_open=False,
            generations=(n,),
            status=None,
        )
        for n in range(number)
    )


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


def test_few_steps_are_advised_to_several_members_with_several_rebalances() -> None:
    left = replace(_incident(IncidentKind.MEMBER_LEFT), may_stop_others=False)
    several = replace(left, rebalances=_spans(2))

    assert _texts(several) == ["Each leave is a rebalance: scale down in few steps."]
    assert _texts(replace(left, rebalances=_spans(1))) == []
    assert _texts(replace(several, members=(M1,))) == []


@pytest.mark.parametrize(("size", "rebalances"), [(5, 2), (2, 1)])
def test_initial_delay_is_for_groups_that_were_empty(size: int, rebalances: int) -> None:
    """Joins in one rebalance need none, and brokers delay the start of an empty group alone."""
    joined = replace(_incident(IncidentKind.MEMBER_JOINED), rebalances=_spans(2), group_size=2)
    delay = "group.initial.rebalance.delay.ms"

    assert delay in {each.setting for each in recommend(joined)}
    other = replace(joined, rebalances=_spans(rebalances), group_size=size)
    assert delay not in {each.setting for each in recommend(other)}


def test_larger_steps_are_advised_to_a_rollout_with_more_than_two() -> None:
    m3, text = MemberRef("m3", "h"), "Each step of a rollout is a rebalance: use fewer, larger"
    members = (M1, M2, m3)

    def advised(rebalances: int, apart_s: float) -> bool:
        gone = tuple(
            MemberDeparture(
                member=member,
                how=DepartureMode.LEFT,
                at=100.0 + apart_s * n,
                returned_at=105.0 + apart_s * n,
            )
            for n, member in enumerate(members)
        )
        rollout = replace(
            _incident(IncidentKind.ROLLOUT),
            members=members,
            rebalances=_spans(rebalances),
            departures=gone,
        )
        return any(each.startswith(text) for each in _texts(rollout))

    assert [advised(6, 10.0), advised(2, 10.0), advised(6, 1.0)] == [True, False, False]


@pytest.mark.parametrize(
    ("kind", "how", "is_advised"),
    [
        (IncidentKind.MEMBER_JOINED, DepartureMode.LEFT, True),
        (IncidentKind.MEMBER_JOINED, DepartureMode.EXPIRED, False),
        (IncidentKind.JOIN_FAILED, DepartureMode.LEFT, False),
    ],
)
def test_less_work_is_advised_to_members_that_worked(
    kind: IncidentKind, how: DepartureMode, *, is_advised: bool
) -> None:
    """A member that died, or could not join, is not made faster by less work."""
    waited = replace(
        _incident(kind),
        waiting_for=(Wait(M1, 9.0, None),),
        departures=(MemberDeparture(member=M1, how=how, at=100.0),),
    )
    assert any("less work" in each for each in _texts(waited)) is is_advised
    failed = replace(waited, also=(RelatedCause(IncidentKind.JOIN_FAILED, (M1,)),))
    assert not any("less work" in each for each in _texts(failed))


@pytest.mark.parametrize(
    ("kind", "is_librdkafka", "words"),
    [
        (ClientKind.CONSUMER, False, "between polls and in onPartitionsRevoked"),
        (ClientKind.CONSUMER, True, "between polls and in the rebalance callback"),
        (ClientKind.STREAMS, False, "between polls"),
        (ClientKind.CONNECT, False, "to stop connectors and tasks"),
    ],
)
def test_less_work_has_its_place_in_the_words_of_the_client(
    kind: ClientKind, words: str, *, is_librdkafka: bool
) -> None:
    slow = replace(
        _incident(IncidentKind.ENFORCED),
        waiting_for=(Wait(M1, 9.0, 160.0),),
        client_kind=kind,
        joins_without_poll=is_librdkafka,
    )
    assert f"The group waited for m1: less work {words} there makes it shorter for all." in _texts(
        slow
    )


def test_librdkafka_has_names_of_its_own() -> None:
    slow = replace(_incident(IncidentKind.POLL_TIMEOUT), joins_without_poll=True)
    assert "max.poll.records" not in {each.setting for each in recommend(slow)}
    joined = replace(_incident(IncidentKind.MEMBER_JOINED), joins_without_poll=True)
    assert any("with cooperative-sticky, or" in each for each in _texts(joined))


@pytest.mark.parametrize("kind", [IncidentKind.PROBING, IncidentKind.VERSION_PROBING])
def test_probing_of_the_classic_protocol_is_for_its_groups_alone(kind: IncidentKind) -> None:
    """The coordinator of a streams group assigns its tasks."""
    assert recommend(_incident(kind))
    assert recommend(replace(_incident(kind), group_type="streams")) == ()


def test_held_id_is_not_told_as_two_processes() -> None:
    held = replace(_incident(IncidentKind.FENCED), reason="UNRELEASED_INSTANCE_ID")
    assert len(recommend(held)) == 1
    fenced = replace(held, reason="FENCED_INSTANCE_ID")
    assert [each.setting for each in recommend(fenced)] == ["group.instance.id"]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (2, 4, ["Partitions of t were added: add them at quiet hours."]),
        (None, 4, ["Topic t appeared: create topics before their consumers start;"]),
        (
            2,
            None,
            ["The leader knows no t any more: it was deleted, or its last subscriber left it;"],
        ),
    ],
)
def test_advice_on_topics_is_on_what_changed(
    before: int | None, after: int | None, words: list[str]
) -> None:
    changed = replace(
        _incident(IncidentKind.METADATA_CHANGED),
        members=(),
        rebalances=_spans(1),
        detail={"topics": [{"topic": "t", "before": before, "after": after}]},
    )
    assert [each[: len(words[0])] for each in _texts(changed)] == words


def test_topic_that_was_missing_for_a_moment_needs_no_other_subscription() -> None:
    """A starting broker does not know all topics yet."""
    changed = replace(
        _incident(IncidentKind.METADATA_CHANGED), members=(), detail={"unseen_topics": ["t"]}
    )
    words = "A broker knew no t for a moment, as while it starts: look at its restart."
    assert _texts(changed) == [words]
