"""Consumer, share and streams groups: the evidence for each code."""

from functools import partial
from typing import Any
from uuid import UUID

import pytest

from metrics.model.signals import Signal
from tests.agent.wire.frames import (
    CONSUMER_HEARTBEAT,
    METADATA,
    SHARE_HEARTBEAT,
    STREAMS_HEARTBEAT,
    request,
)
from tests.agent.wire.talk import Talk, Wire, got

TOPIC = UUID(int=7)
SYNC = [("sync", 0)]


def given(*numbers: int) -> tuple[dict[str, Any], ...]:
    return ({"topic_id": TOPIC, "partitions": numbers},)


def beat(talk: Talk, epoch: int, api_key: int = CONSUMER_HEARTBEAT, **values: Any) -> list[Signal]:
    version = 0 if api_key == STREAMS_HEARTBEAT else 1
    return talk.ask(api_key, version, group_id="g", member_id="a", member_epoch=epoch, **values)


def answer(talk: Talk, epoch: int, *target: int, **values: Any) -> list[Signal]:
    if target:
        values["assignment"] = {"topic_partitions": given(*(n for n in target if n >= 0))}
    return talk.tell(member_id="a", member_epoch=epoch, **values)


@pytest.fixture
def talk() -> Talk:
    """Return a member of a consumer group that owns partitions 0 and 1, settled in epoch 5."""
    talk = Wire().connect()
    beat(talk, 0, subscribed_topic_names=("t",), topic_partitions=())
    answer(talk, 5, 0, 1)
    beat(talk, 5, topic_partitions=given(0, 1))
    answer(talk, 5)
    return talk


def name_topic(talk: Talk) -> None:
    """Let the client request metadata: the response names the topic."""
    row = {"name": "orders", "topic_id": TOPIC, "partitions": ({"leader_id": 1},)}
    talk.ask(METADATA, 12)
    talk.tell(cluster_id="c", topics=(row,))


def partitions(talk: Talk, *owned: int) -> set[tuple[str, ...]]:
    """Return the field of a heartbeat by a member with some partitions."""
    found = [*beat(talk, 5), *answer(talk, 6, *owned)]
    found += [*beat(talk, 6, topic_partitions=given(*owned)), *answer(talk, 6)]
    return {each.assigned for each in found if each.assigned}


class TestConsumerGroup:
    def test_a_new_member_settles_when_its_report_is_accepted(self) -> None:
        talk = Wire().connect()

        assert got(beat(talk, 0, subscribed_topic_names=("t",), topic_partitions=())) == [
            ("raise", 2)
        ]
        assert got(answer(talk, 5, 0, 1)) == []
        assert got(beat(talk, 5)) == []
        assert got(answer(talk, 5)) == []
        assert got(beat(talk, 5, topic_partitions=given(0, 1))) == []
        assert got(answer(talk, 5)) == SYNC

    def test_partitions_have_their_topics_name_where_metadata_has_shown_it(self) -> None:
        talk = Wire().connect()
        name_topic(talk)
        beat(talk, 0, subscribed_topic_names=("t",), topic_partitions=())
        answer(talk, 5)

        assert partitions(talk, 0, 1) == {("orders-0", "orders-1")}

    def test_topic_keeps_the_text_of_its_first_use(self, talk: Talk) -> None:
        """Its partitions would look like ones that were lost, and others."""
        name_topic(talk)

        assert partitions(talk, 0) == {("AAAAAAAAAAAAAAAAAAAABw-0",)}

    @pytest.mark.parametrize("first", [0x00, 0xB0, 0xC0])  # the text begins with A, s, w
    def test_partitions_are_named_by_the_text_of_their_topics_id(self, first: int) -> None:
        talk = Wire().connect()
        parts = ({"topic_id": UUID(bytes=bytes([first, *range(1, 16)])), "partitions": (0, 1)},)
        beat(talk, 0, subscribed_topic_names=("t",), topic_partitions=())

        (joins,) = talk.tell(member_id="a", member_epoch=5, assignment={"topic_partitions": parts})
        (seen,) = beat(talk, 5, topic_partitions=parts)

        assert joins.assigned == ()  # its poll may come later
        letter = {0x00: "A", 0xB0: "s", 0xC0: "w"}[first]
        text = f"{letter}AECAwQFBgcICQoLDA0ODw"
        assert seen.assigned == (f"{text}-0", f"{text}-1")

    def test_a_settled_member_tells_what_it_gained(self, talk: Talk) -> None:
        gained = []
        for epoch, target in ((6, (1, 2, 3)), (7, (1,))):
            beat(talk, epoch - 1)
            answer(talk, epoch, *target)
            beat(talk, epoch, topic_partitions=given(*target))
            gained += [each.gained for each in answer(talk, epoch)]

        assert gained == [2, 0]

    def test_a_null_among_the_topics_is_no_topic(self) -> None:
        """The protocol has no null there; a client may send one all the same."""
        talk, found = Wire().connect(), list[Signal]()
        for epoch, topic in ((0, "t"), (5, "u")):
            frame = request(
                CONSUMER_HEARTBEAT,
                1,
                epoch,
                "m1",
                group_id="g",
                member_id="a",
                member_epoch=epoch,
                subscribed_topic_names=("zzz", topic),
                topic_partitions=(),
            )
            body = frame[4:].replace(b"\x04zzz", b"\x00")
            found += talk.send(len(body).to_bytes(4, "big") + body)

        assert got(found) == [("raise", 2), ("raise", 8)]
        assert found[1].reason == "subscription has changed from [t] to [u]"

    def test_a_fenced_member_gains_all_it_is_given_again(self, talk: Talk) -> None:
        beat(talk, 5)
        answer(talk, 0, error_code=110)
        beat(talk, 0, subscribed_topic_names=("t",), topic_partitions=())
        answer(talk, 8, 0, 1)
        beat(talk, 8, topic_partitions=given(0, 1))

        assert [each.gained for each in answer(talk, 8)] == [2]

    def test_an_empty_first_assignment_settles_too(self) -> None:
        talk = Wire().connect()
        beat(talk, 0, topic_partitions=())
        answer(talk, 5, -1)
        beat(talk, 5, topic_partitions=())

        assert got(answer(talk, 5)) == SYNC

    def test_added_partitions_are_the_coordinators_request(self, talk: Talk) -> None:
        beat(talk, 5)

        assert got(answer(talk, 6, 0, 1, 2)) == [("raise", 1)]

    def test_taken_partitions_follow_at_once(self, talk: Talk) -> None:
        beat(talk, 5)

        assert got(answer(talk, 6, 0)) == [("raise", 1), ("raise", 10)]

    def test_what_the_accepting_answer_brings_is_the_next_round(self, talk: Talk) -> None:
        beat(talk, 5)
        answer(talk, 6, 0)
        beat(talk, 6, topic_partitions=given(0))

        assert got(answer(talk, 7, 0, 2)) == [*SYNC, ("raise", 1)]

    def test_the_same_assignment_again_is_nothing(self, talk: Talk) -> None:
        beat(talk, 5, subscribed_topic_names=("t",), topic_partitions=given(0, 1))

        assert got(answer(talk, 5, 0, 1)) == []

    def test_another_subscription_holds_until_its_target_is_acknowledged(self, talk: Talk) -> None:
        signals = beat(talk, 5, subscribed_topic_names=("t", "u"))

        assert got(signals) == [("raise", 8)]
        assert [s.reason for s in signals] == ["subscription has changed from [t] to [t, u]"]
        assert got(answer(talk, 5)) == []
        beat(talk, 5)
        assert got(answer(talk, 6, 0, 1, 2)) == []
        beat(talk, 6, topic_partitions=given(0, 1, 2))
        assert got(answer(talk, 6)) == SYNC

    def test_a_subscription_that_changes_no_target_ends_with_the_next_heartbeat(
        self, talk: Talk
    ) -> None:
        beat(talk, 5, subscribed_topic_regex="t.*")
        answer(talk, 5)
        beat(talk, 5)

        assert got(answer(talk, 5)) == SYNC

    @pytest.mark.parametrize(("error", "code"), [(25, 3), (110, 4), (113, 4)])
    def test_a_fenced_member_joins_again_in_the_same_round(
        self, talk: Talk, error: int, code: int
    ) -> None:
        beat(talk, 5)

        assert got(answer(talk, 0, error_code=error)) == [("raise", code)]
        assert got(beat(talk, 0, subscribed_topic_names=("t",), topic_partitions=())) == []
        assert got(answer(talk, 7, 0)) == []
        beat(talk, 7, topic_partitions=given(0))
        assert got(answer(talk, 7)) == SYNC

    @pytest.mark.parametrize("error", [14, 15, 16])
    def test_a_coordinator_that_moves_is_no_rebalance(self, talk: Talk, error: int) -> None:
        beat(talk, 5)

        assert got(answer(talk, 0, error_code=error)) == []

    @pytest.mark.parametrize("error", [30, 42, 81, 111, 112])
    def test_a_fatal_error_fails(self, talk: Talk, error: int) -> None:
        beat(talk, 5)

        assert got(answer(talk, 0, error_code=error)) == [("fail", 0)]

    def test_refused_topics_leave_a_member_in_its_state(self, talk: Talk) -> None:
        beat(talk, 5)

        assert got(answer(talk, 0, error_code=29)) == [("refuse", 0)]

    @pytest.mark.parametrize("epoch", [-1, -2])
    def test_a_leave_is_the_users(self, talk: Talk, epoch: int) -> None:
        assert got(beat(talk, epoch)) == [("leave", 0)]
        assert got(beat(talk, 0, topic_partitions=())) == [("raise", 2)]

    @pytest.mark.parametrize("api_key", [CONSUMER_HEARTBEAT, SHARE_HEARTBEAT, STREAMS_HEARTBEAT])
    @pytest.mark.parametrize("epoch", [-1, -2])
    def test_leave_of_an_unseen_member_counts_once_the_broker_knows_it(
        self, api_key: int, epoch: int
    ) -> None:
        """A consumer that is closed before its first heartbeat leaves a group it never joined."""
        for error, signals in ((0, [("leave", 0)]), (25, [])):
            talk = Wire().connect()

            assert got(beat(talk, epoch, api_key)) == []
            assert got(talk.tell(error_code=error)) == signals

    def test_member_that_was_refused_a_leave_may_join(self) -> None:
        talk = Wire().connect()
        beat(talk, -1)
        talk.tell(error_code=25)

        assert got(beat(talk, 0, subscribed_topic_names=("t",))) == [("raise", 2)]
        assert got(beat(talk, -1)) == [("leave", 0)]

    def test_the_answer_to_a_leave_is_void(self, talk: Talk) -> None:
        beat(talk, -1)

        assert got(answer(talk, -1, error_code=25)) == []

    def test_a_full_heartbeat_in_mid_stream_repeats_what_is_known(self) -> None:
        talk = Wire().connect()
        beat(talk, 5, subscribed_topic_names=("t",), topic_partitions=given(0))

        assert got(answer(talk, 5, 0)) == []
        beat(talk, 5)
        assert got(answer(talk, 6, 0, 1)) == [("raise", 1)]

    def test_a_member_whose_error_was_lost_joins_without_a_visible_cause(self, talk: Talk) -> None:
        beat(talk, 0, subscribed_topic_names=("t",), topic_partitions=())

        assert got(answer(talk, 7, 0)) == [("join", 0)]

    def test_a_process_that_starts_again_has_reported_nothing(self, talk: Talk) -> None:
        """Its first target may be the one that its predecessor had acknowledged."""
        talk.close()
        again = talk.wire.connect()
        asks = partial(again.ask, CONSUMER_HEARTBEAT, 1, group_id="g", member_id="b")
        tells = partial(again.tell, member_id="b", member_epoch=6)
        target = {"topic_partitions": given(0, 1)}

        asks(member_epoch=0, subscribed_topic_names=("t",), topic_partitions=())
        tells(assignment=target)
        for _ in range(2):
            asks(member_epoch=6)
            assert got(tells()) == []
        asks(member_epoch=6, topic_partitions=given(0, 1))
        assert got(tells()) == SYNC

    def test_its_commits_are_read_with_the_epoch(self, talk: Talk) -> None:
        talk.ask(8, 9, group_id="g", member_id="a", generation_id_or_member_epoch=4)
        stale = {"name": "t", "partitions": ({"partition_index": 0, "error_code": 113},)}

        assert got(talk.tell(topics=(stale,))) == []


class TestShareGroup:
    def test_the_next_accepted_heartbeat_settles(self) -> None:
        talk = Wire().connect()

        joins = beat(talk, 0, SHARE_HEARTBEAT, subscribed_topic_names=("t",))
        assert got(joins) == [("raise", 2)]
        assert (joins[0].member.group_type, joins[0].member.protocol_type) == ("share", None)
        assert got(answer(talk, 1, 0, 1)) == []
        beat(talk, 1, SHARE_HEARTBEAT)
        assert got(answer(talk, 1)) == SYNC
        beat(talk, 1, SHARE_HEARTBEAT)
        assert got(answer(talk, 2, 0)) == [("raise", 1), ("raise", 10)]


class TestStreamsGroup:
    CLIENT = "app-StreamThread-1-consumer"

    def tasks(self, talk: Talk, epoch: int, **values: Any) -> list[Signal]:
        kinds = {
            f"{kind}_tasks": ({"subtopology_id": "0", "partitions": values.pop(kind, ())},)
            for kind in ("active", "standby", "warmup")
        }
        return talk.tell(member_id="a", member_epoch=epoch, **kinds, **values)

    def report(self, talk: Talk, epoch: int, *active: int, **values: Any) -> list[Signal]:
        tasks = {
            "active_tasks": ({"subtopology_id": "0", "partitions": active},),
            "standby_tasks": (),
            "warmup_tasks": (),
        }
        return beat(talk, epoch, STREAMS_HEARTBEAT, **tasks, **values)

    def test_tasks_are_partitions(self) -> None:
        talk = Wire().connect(self.CLIENT)
        joins = beat(talk, 0, STREAMS_HEARTBEAT, process_id="p")
        self.tasks(talk, 1, active=(0, 1))
        self.report(talk, 1, 0, 1)
        settles = self.tasks(talk, 1, active=(0, 1))
        self.report(talk, 1, 0, 1)
        moves = self.tasks(talk, 2, active=(0,), standby=(1,))

        assert (got(joins), got(settles)) == ([("raise", 2)], SYNC)
        assert got(moves) == [("raise", 1), ("raise", 10)]
        assert [each.assigned for each in moves if each.assigned is not None] == [("0-0",)]
        assert joins[0].member.origin == "p"

    def test_what_only_a_standby_loses_stops_nothing(self) -> None:
        talk = Wire().connect(self.CLIENT)
        beat(talk, 5, STREAMS_HEARTBEAT)
        self.tasks(talk, 5, active=(0,), standby=(1,))
        beat(talk, 5, STREAMS_HEARTBEAT)

        assert ("raise", 10) not in got(self.tasks(talk, 6, active=(0, 1)))

    def test_warmups_are_probing(self) -> None:
        talk = Wire().connect(self.CLIENT)
        beat(talk, 0, STREAMS_HEARTBEAT)
        self.tasks(talk, 1, warmup=(0,))
        warmup = ({"subtopology_id": "0", "partitions": (0,)},)
        none = ()
        beat(talk, 1, STREAMS_HEARTBEAT, active_tasks=none, standby_tasks=none, warmup_tasks=warmup)
        layer = self.tasks(talk, 1, warmup=(0,))[0].streams_follow_up

        assert layer is not None
        assert (layer.status, layer.due_at) == (11, None)

    @pytest.mark.parametrize(
        ("code", "name"), [(2, "INCORRECTLY_PARTITIONED_TOPICS"), (1, "MISSING_SOURCE_TOPICS")]
    )
    def test_topology_that_the_group_cannot_run_is_refused(self, code: int, name: str) -> None:
        """The client throws, and its application ends: its leave has no reason of its own."""
        talk = Wire().connect(self.CLIENT)
        beat(talk, 5, STREAMS_HEARTBEAT)
        row = {"status_code": code, "status_detail": "topic t: expected 6, found 4"}
        refused, *_ = talk.tell(member_id="a", member_epoch=5, status=(row,))

        assert refused.kind == "refuse"
        assert refused.reason == f"heartbeat answered {name}: topic t: expected 6, found 4"

    @pytest.mark.parametrize("code", [0, 3, 5])
    def test_passing_status_of_a_topology_refuses_nothing(self, code: int) -> None:
        talk = Wire().connect(self.CLIENT)
        beat(talk, 5, STREAMS_HEARTBEAT)
        row = {"status_code": code, "status_detail": "creating internal topics"}

        assert got(talk.tell(member_id="a", member_epoch=5, status=(row,))) == []

    def test_a_new_endpoint_that_the_group_takes_up(self) -> None:
        talk = Wire().connect(self.CLIENT)
        for port, epoch in ((1, 3), (2, 4)):
            beat(talk, 5, STREAMS_HEARTBEAT, user_endpoint={"host": "h", "port": port})
            signals = talk.tell(member_id="a", member_epoch=5, endpoint_information_epoch=epoch)

        layer = signals[0].streams_follow_up
        assert layer is not None
        assert (signals[0].status, layer.status) == (0, 13)
        beat(talk, 5, STREAMS_HEARTBEAT)
        assert got(talk.tell(member_id="a", member_epoch=5, endpoint_information_epoch=4)) == SYNC

    @pytest.mark.parametrize("leaves", [False, True])
    def test_another_process_with_another_endpoint_moves_none(self, leaves: bool) -> None:
        talk = Wire().connect(self.CLIENT)
        for member_id, port, epoch in (("a", 1, 3), ("b", 2, 4)):
            asks = partial(talk.ask, STREAMS_HEARTBEAT, 0, group_id="g", member_id=member_id)
            asks(member_epoch=0, user_endpoint={"host": "h", "port": port})
            signals = talk.tell(
                member_id=member_id, member_epoch=5, endpoint_information_epoch=epoch
            )
            if leaves:
                asks(member_epoch=-1)
            talk.close()
            talk = talk.wire.connect(self.CLIENT)

        assert [each.streams_follow_up for each in signals] == [None]
