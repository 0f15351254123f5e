import pytest

from metrics.model.signals import FollowUp, Member, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.duplicates import (
    REMEMBERED_S,
    SAME_EVENT_S,
    Observation,
    forget,
    match_observation,
    remember,
    reporter_name,
    split_signal,
)

NOW = 1_000.0
LOG, WIRE = "logs s", "wire w"
CAUSE, DEMAND, DROPPED = "raise 2", "raise 10", "raise 5"
_LOOK_S = 10.0


def fact(
    at: float,
    name: str = CAUSE,
    voice: str = LOG,
    *,
    source: SourceKind = SourceKind.LOGS,
    generation: int | None = None,
    reason: str | None = None,
) -> Observation:
    return Observation(
        name=name, at=at, source=source, reporters=(voice,), generation=generation, reason=reason
    )


def signal(
    kind: SignalKind,
    status: int = 0,
    *,
    group_type: str = "classic",
    reason: str | None = None,
    generation: int | None = None,
    follow_up: FollowUp | None = None,
    streams_follow_up: FollowUp | None = None,
) -> Signal:
    return Signal(
        member=Member(group="g", client_id="m", origin="s", group_type=group_type),
        kind=kind,
        at=NOW,
        source=SourceKind.LOGS,
        status=RebalanceStatus(status),
        reason=reason,
        generation=generation,
        follow_up=follow_up,
        streams_follow_up=streams_follow_up,
    )


def follow_up(status: int, after_s: float, reason: str | None = None) -> FollowUp:
    return FollowUp(status=RebalanceStatus(status), at=NOW + after_s, reason=reason)


@pytest.mark.parametrize("age", [0.0, 1.0, REMEMBERED_S])
def test_fact_of_the_last_minute_is_remembered(age: float) -> None:
    got = [fact(NOW - age)]

    forget(got, NOW)

    assert len(got) == 1


def test_older_ones_go_and_the_last_minutes_stay() -> None:
    got = [fact(NOW - REMEMBERED_S - 1.0), fact(NOW - REMEMBERED_S), fact(NOW)]

    forget(got, NOW)

    assert [each.at for each in got] == [NOW - REMEMBERED_S, NOW]


class TestIsSame:
    @pytest.mark.parametrize("apart_s", [SAME_EVENT_S - 0.1, 0.0, 0.1 - SAME_EVENT_S])
    def test_one_name_within_the_time_is(self, apart_s: float) -> None:
        assert fact(NOW).is_same(fact(NOW + apart_s))

    @pytest.mark.parametrize("apart_s", [SAME_EVENT_S, -SAME_EVENT_S])
    def test_one_name_beyond_it_is_not(self, apart_s: float) -> None:
        assert not fact(NOW).is_same(fact(NOW + apart_s))

    def test_another_name_is_not(self) -> None:
        assert not fact(NOW).is_same(fact(NOW, "raise 1"))

    def test_one_generation_is_whenever_it_was(self) -> None:
        late = fact(NOW + 60.0, "sync", generation=3)

        assert fact(NOW, "sync", generation=3).is_same(late)
        assert not fact(NOW + 60.0, "sync", generation=2).is_same(late)
        assert not fact(NOW + 60.0, "fail", generation=3).is_same(late)

    def test_one_unknown_generation_leaves_the_time(self) -> None:
        known = fact(NOW, "sync", generation=3)

        assert known.is_same(fact(NOW + 1.0, "sync"))
        assert fact(NOW + 1.0, "sync").is_same(known)
        assert not known.is_same(fact(NOW + 3.0, "sync"))

    @pytest.mark.parametrize("looks_first", [True, False])
    def test_who_only_looks_may_be_off_by_a_look(self, looks_first: bool) -> None:
        within = [fact(NOW), fact(NOW + 11.9, source=SourceKind.STATS)]
        beyond = [fact(NOW), fact(NOW + SAME_EVENT_S + _LOOK_S, source=SourceKind.STATS)]
        if looks_first:
            within.reverse()
            beyond.reverse()

        assert within[0].is_same(within[1])
        assert not beyond[0].is_same(beyond[1])

    def test_a_leave_without_a_reason_is_a_dropped_members(self) -> None:
        assert fact(NOW, DROPPED).is_same(fact(NOW, "leave"))
        assert fact(NOW, "leave").is_same(fact(NOW, DROPPED))
        assert fact(NOW, DROPPED, reason="poll timeout").is_same(fact(NOW, "leave"))

    def test_a_leave_with_a_reason_is_not(self) -> None:
        assert not fact(NOW, DROPPED).is_same(fact(NOW, "leave", reason="closed"))
        assert not fact(NOW, "leave", reason="closed").is_same(fact(NOW, DROPPED))

    def test_nor_is_another_cause(self) -> None:
        assert not fact(NOW, CAUSE).is_same(fact(NOW, "leave"))


class TestFacts:
    def test_a_cause_is_its_code(self) -> None:
        (found,) = split_signal(signal(SignalKind.RAISE, 2, reason="why"))

        assert (found.name, found.at, found.reason) == (CAUSE, NOW, "why")
        assert (found.source, found.reporters, found.generation) == (SourceKind.LOGS, (LOG,), None)

    def test_a_code_of_nothing_tells_what_follows_alone(self) -> None:
        probing = follow_up(11, 1, "probing")

        (found,) = split_signal(signal(SignalKind.RAISE, streams_follow_up=probing))

        assert (found.name, found.at, found.reason) == ("layer 11", NOW + 1, "probing")

    def test_a_sync_comes_before_what_follows_from_it(self) -> None:
        got = signal(
            SignalKind.SYNC,
            generation=7,
            follow_up=follow_up(10, 2, "revoke"),
            streams_follow_up=follow_up(12, 3),
        )

        found = split_signal(got)

        assert [(each.name, each.at, each.reason) for each in found] == [
            ("sync", NOW, None),
            (DEMAND, NOW + 2, "revoke"),
            ("layer 12", NOW + 3, None),
        ]
        assert [each.generation for each in found] == [7, None, None]

    def test_an_epoch_is_no_generation_nor_is_a_leaves(self) -> None:
        (epoch,) = split_signal(signal(SignalKind.SYNC, group_type="consumer", generation=7))
        (leave,) = split_signal(signal(SignalKind.LEAVE, generation=7))

        assert (epoch.generation, leave.generation) == (None, None)

    def test_a_voice_is_its_source_and_stream(self) -> None:
        assert reporter_name(signal(SignalKind.LEAVE)) == LOG


class TestClaim:
    def test_the_nearest_that_this_voice_has_not_told(self) -> None:
        got = [fact(NOW - 1.5), fact(NOW - 0.5), fact(NOW - 0.1, voice=WIRE), fact(NOW + 1.0)]

        assert match_observation(got, fact(NOW, voice=WIRE)) is got[1]
        assert [each.reporters for each in got] == [(LOG,), (LOG, WIRE), (WIRE,), (LOG,)]

    def test_nothing_like_it(self) -> None:
        got = [fact(NOW, voice=WIRE), fact(NOW, "raise 1")]

        assert match_observation(got, fact(NOW, voice=WIRE)) is None
        assert [each.reporters for each in got] == [(WIRE,), (LOG,)]

    def test_of_an_end_it_is_the_causes_before_it_too(self) -> None:
        got = [fact(NOW - 5.0), fact(NOW, "sync"), fact(NOW), fact(NOW - 1.0, DEMAND)]

        assert match_observation(got, fact(NOW + 0.5, "sync", WIRE)) is got[1]
        assert [each.reporters for each in got] == [(LOG, WIRE), (LOG, WIRE), (LOG,), (LOG,)]


class TestRemember:
    def test_what_is_new_stands_behind_what_was_told(self) -> None:
        got = [fact(NOW)]
        new = [fact(NOW + 1), fact(NOW + 2, "sync")]

        remember(got, new)

        assert [each.at for each in got] == [NOW, NOW + 1, NOW + 2]

    def test_the_32_last(self) -> None:
        got: list[Observation] = []
        for number in range(40):
            remember(got, [fact(NOW + number)])

        assert [each.at - NOW for each in got] == list(range(8, 40))

    @pytest.mark.parametrize("end", ["sync", "leave", "fail"])
    def test_a_voices_end_takes_the_other_voices_causes_before_it(self, end: str) -> None:
        got = [fact(NOW - 1.0), fact(NOW), fact(NOW - 1.0, DEMAND), fact(NOW - 1.0, voice=WIRE)]

        remember(got, [fact(NOW, end, WIRE)])

        assert [each.reporters for each in got[:4]] == [(LOG, WIRE), (LOG,), (LOG,), (WIRE,)]

    def test_what_is_no_end_takes_none(self) -> None:
        got = [fact(NOW - 1.0)]

        remember(got, [fact(NOW, "note", WIRE)])

        assert got[0].reporters == (LOG,)

    def test_a_late_cause_is_told_by_all_that_have_told_an_end_behind_it(self) -> None:
        got = [fact(NOW, "sync", WIRE), fact(NOW + 2, "sync", "capture c")]
        late, at_once, demand = fact(NOW - 1), fact(NOW + 2), fact(NOW - 1, DEMAND)

        remember(got, [late, at_once, demand])

        assert late.reporters[0] == LOG
        assert sorted(late.reporters[1:]) == ["capture c", WIRE]
        assert (at_once.reporters, demand.reporters) == ((LOG,), (LOG,))

    def test_its_own_voice_cannot_have_told_this_generations_end_before(self) -> None:
        ended = fact(NOW, "sync", generation=3)
        ended.reporters += (WIRE,)
        late = fact(NOW - 1)

        remember([ended], [late])

        assert late.reporters == (LOG,)

    def test_of_an_end_without_a_generation_it_may(self) -> None:
        ended = fact(NOW, "sync")
        ended.reporters += (WIRE,)
        late = fact(NOW - 1)

        remember([ended], [late])

        assert set(late.reporters) == {LOG, WIRE}
