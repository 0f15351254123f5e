"""The classic protocol: the evidence for each code, and messages that are no cause."""

from datetime import timedelta
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from metrics.model.signals import Signal, SignalKind
from metrics.model.status import RebalanceStatus as Status
from tests.agent.wire.frames import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    FIND_COORDINATOR,
    JOIN_GROUP,
    LEAVE_GROUP,
    METADATA,
    OFFSET_COMMIT,
    SASL_AUTHENTICATE,
    subscription,
)
from tests.agent.wire.talk import Talk, Wire, got

SYNC, JOIN = [("sync", 0)], [("join", 0)]


def raised(code: int) -> list[tuple[str, int]]:
    return [("raise", code)]


@pytest.fixture
def talk() -> Talk:
    """Return a member in generation 1 of group "g", settled."""
    talk = Wire().connect()
    talk.settle()
    return talk


def commit(talk: Talk, *errors: int, generation: int = 1, member_id: str = "m1-a") -> list[object]:
    talk.ask(
        OFFSET_COMMIT,
        8,
        group_id="g",
        generation_id_or_member_epoch=generation,
        member_id=member_id,
    )
    partitions = [{"partition_index": i, "error_code": error} for i, error in enumerate(errors)]
    return [*got(talk.tell(topics=({"name": "t", "partitions": partitions},)))]


def leave(talk: Talk, member_id: str = "m1-a", reason: str | None = None) -> list[object]:
    member = {"member_id": member_id, "reason": reason}
    return [*got(talk.ask(LEAVE_GROUP, 5, group_id="g", members=(member,)))]


class TestJoins:
    def test_a_new_member_is_told_to_use_a_member_id(self) -> None:
        talk = Wire().connect()

        assert got(talk.join("")) == []
        assert got(talk.joined(error=79)) == raised(2)
        assert got(talk.join(reason="need to re-join with the given member-id: m1-a")) == []
        assert got(talk.joined()) == []
        assert got(talk.sync()) == []
        assert got(talk.synced({"t": [0]})) == SYNC

    def test_a_static_member_joins_without_a_visible_cause(self) -> None:
        talk = Wire().connect()
        talk.join("", group_instance_id="i1")
        sent_at = talk.wire.at
        (join,) = talk.joined("i1-x")

        assert got([join]) == JOIN
        assert (join.sent_at, join.at) == (sent_at, talk.wire.at)

    @pytest.mark.parametrize(
        ("error", "code"), [(14, 9), (15, 9), (16, 9), (25, 3), (22, 4), (27, 1)]
    )
    def test_an_error_of_the_join_sets_its_code(self, talk: Talk, error: int, code: int) -> None:
        talk.join()

        assert got(talk.joined(error=error)) == raised(code)

    @pytest.mark.parametrize(("error", "code"), [(14, 9), (16, 9), (25, 3), (22, 4), (27, 1)])
    def test_an_error_of_the_sync_sets_its_code(self, talk: Talk, error: int, code: int) -> None:
        talk.join()
        talk.joined(generation=2)
        talk.sync(generation=2)

        assert got(talk.synced(error=error)) == raised(code)

    @pytest.mark.parametrize("error", [23, 26, 30, 81, 82, -1])
    def test_a_fatal_error_ends_the_round_as_failed(self, talk: Talk, error: int) -> None:
        talk.join()

        assert got(talk.joined(error=error)) == [("fail", 0)]

    def test_an_error_newer_than_we_are_tells_nothing(self, talk: Talk) -> None:
        talk.join()
        talk.receive(
            b"\0\0\0\x1a"
            + talk.asked[2].to_bytes(4, "big")
            + b"\0"
            + bytes(4)
            + b"\x7f\xff"
            + bytes(15)
        )

        assert talk.wire.counts == {}


class TestReasons:
    @pytest.mark.parametrize(
        ("reason", "code"),
        [
            ("group is already rebalancing", 1),
            ("offset commit failed since group is already rebalancing", 1),
            ("need to re-join with the given member-id: m1-a", 2),
            ("rebalance failed due to MemberIdRequiredException", 2),
            ("encountered UNKNOWN_MEMBER_ID from HEARTBEAT response", 3),
            ("encountered ILLEGAL_GENERATION from SYNC_GROUP response", 4),
            ("cached metadata has changed", 7),
            ("subscription has changed", 8),
            ("received assignment does not match the current subscription", 8),
            ("rebalance failed due to NotCoordinatorException", 9),
            ("need to revoke partitions and re-join", 10),
            ("rebalance enforced by user", 6),
            ("the night shift wants it", 6),
            # Streams' own; 10, 12 or 13 of the instance stood in the assignment, if that was seen
            ("triggered followup rebalance scheduled for 0", 6),
            (f"triggered followup rebalance scheduled for {'9' * 5000}", 6),
            ("cooperative rejoin after revoking what we lost from a rebalance", 10),
            ("rejoining because we are the leader and noticed some topics have new partitions", 7),
        ],
    )
    def test_a_reason_sets_its_code(self, talk: Talk, reason: str, code: int) -> None:
        assert got(talk.join(reason=reason)) == raised(code)

    @pytest.mark.parametrize(
        "reason",
        [
            "consumer pro-actively leaving the group",
            "encountered FENCED_INSTANCE_ID from HEARTBEAT response",
            "rebalance failed due to DisconnectException",
            "rebalance failed due to CoordinatorNotAvailableException",
            "beginning to manage the group lifecycle",
        ],
    )
    def test_these_reasons_are_no_causes(self, talk: Talk, reason: str) -> None:
        assert got(talk.join(reason=reason)) == [("join", 0)]

    def test_a_cause_is_told_once_a_round(self, talk: Talk) -> None:
        assert got(talk.heartbeat(error=27)) == raised(1)
        assert got(talk.heartbeat(error=27)) == []
        assert got(talk.join(reason="group is already rebalancing")) == []
        talk.joined(generation=2)
        talk.sync(generation=2)
        talk.synced()
        assert got(talk.heartbeat(generation=2, error=27)) == raised(1)

    def test_other_topics_are_a_changed_subscription_where_no_reason_is_given(self) -> None:
        talk = Wire().connect()
        talk.settle(version=7)

        signals = talk.join(topics=("t", "u"), version=7)

        assert got(signals) == raised(8)
        assert reasons_of(signals) == ["subscription has changed from [t] to [t, u]"]

    def test_a_changed_subscription_has_its_topics_behind_the_clients_words(
        self, talk: Talk
    ) -> None:
        signals = talk.join(topics=("u",), reason="subscription has changed")

        assert reasons_of(signals) == ["subscription has changed from [t] to [u]"]

    def test_the_reason_says_it_better_than_the_topics(self, talk: Talk) -> None:
        assert got(talk.join(topics=("u",), reason="group is already rebalancing")) == raised(1)


class TestHeartbeatsAndCommits:
    @pytest.mark.parametrize(("error", "code"), [(25, 3), (22, 4), (27, 1)])
    def test_an_error_of_a_heartbeat_sets_its_code(self, talk: Talk, error: int, code: int) -> None:
        assert got(talk.heartbeat(error=error)) == raised(code)

    @pytest.mark.parametrize("version", range(5))
    def test_every_version_of_heartbeat_is_read(self, talk: Talk, version: int) -> None:
        assert got(talk.heartbeat(error=27, version=version)) == raised(1)

    @pytest.mark.parametrize(("error", "code"), [(25, 3), (22, 4), (27, 1)])
    def test_one_partition_of_a_commit_is_enough(self, talk: Talk, error: int, code: int) -> None:
        assert commit(talk, 0, error, 0) == raised(code)

    @pytest.mark.parametrize("error", [14, 15, 16])
    def test_a_coordinator_that_moves_is_no_rebalance(self, talk: Talk, error: int) -> None:
        assert got(talk.heartbeat(error=error)) == []
        assert commit(talk, error) == []

    def test_a_fenced_static_member_dies_without_a_code(self, talk: Talk) -> None:
        assert got(talk.heartbeat(error=82)) == [("fail", 0)]

    def test_an_answer_to_an_older_generation_is_void(self, talk: Talk) -> None:
        talk.settle(generation=2)

        assert got(talk.heartbeat(generation=1, error=22)) == []

    def test_an_answer_to_an_earlier_member_id_is_void(self, talk: Talk) -> None:
        other = talk.wire.connect()
        other.ask(12, 4, group_id="g", generation_id=1, member_id="m1-a")
        talk.join("")
        talk.joined("m1-b", error=79)

        assert got(other.tell(error_code=25)) == []

    def test_a_commit_without_membership_makes_no_member(self) -> None:
        talk = Wire().connect("tool")

        assert commit(talk, 25, generation=-1, member_id="") == []
        assert talk.members() == []

    @pytest.mark.parametrize("ask", ["heartbeat", "commit"])
    def test_a_member_that_has_dropped_its_id_learns_that_it_was_removed(
        self, talk: Talk, ask: str
    ) -> None:
        """librdkafka does, when it finds its session expired: after SIGSTOP, before it joins."""
        if ask == "heartbeat":
            assert got(talk.heartbeat("", error=25)) == raised(3)
        else:
            assert commit(talk, 25, member_id="") == raised(3)

        talk.join("", version=5)
        assert got(talk.joined("m1-b", error=79)) == raised(2)  # lower: it changes nothing

    def test_what_was_asked_without_an_id_before_a_round_is_void_after_it(self, talk: Talk) -> None:
        talk.settle(generation=2)

        assert got(talk.heartbeat("", generation=1, error=25)) == []

    def test_a_heartbeat_shows_a_member_in_mid_stream(self) -> None:
        talk = Wire().connect()

        signal = talk.heartbeat(generation=7)[0]
        assert (signal.kind, signal.generation) == (SignalKind.SEEN, 7)


class TestCooperative:
    def test_an_assignment_without_what_is_owned_demands_a_revocation(self) -> None:
        talk = Wire().connect()
        talk.join(owned={"t": [0, 1]}, protocol="cooperative-sticky")
        talk.joined(protocol="cooperative-sticky")
        talk.sync()

        follow_up = talk.synced({"t": [1]})[0].follow_up
        assert follow_up is not None
        assert (follow_up.status, follow_up.reason) == (10, "partitions to revoke: t-0")

    def test_the_rejoin_for_it_is_the_same_cause(self) -> None:
        talk = Wire().connect()
        talk.join(owned={"t": [0, 1]}, protocol="cooperative-sticky")
        talk.joined(protocol="cooperative-sticky")
        talk.sync()
        talk.synced({"t": [1]})

        reason = "need to revoke partitions and re-join"
        assert got(talk.join(owned={"t": [1]}, reason=reason)) == []

    def test_an_eager_assignor_has_revoked_before(self) -> None:
        talk = Wire().connect()
        talk.join(owned={"t": [0, 1]})
        talk.joined()
        talk.sync()

        assert talk.synced({"t": [1]})[0].follow_up is None

    @pytest.mark.parametrize("assignor", ["range", "RoundRobinAssigner"])
    def test_an_eager_member_reads_nothing_from_its_join_on(self, assignor: str) -> None:
        talk = Wire().connect()
        talk.join(protocol=assignor)
        talk.joined(protocol=assignor)
        talk.sync()
        talk.synced({"t": [0]})

        signals = talk.join(protocol=assignor)

        assert got(signals[:-1]) == [("join", 0)]
        assert signals[-1].assigned == ()

    def test_a_rolling_change_of_the_strategy_is_followed(self) -> None:
        """A member that knows both has revoked all before it joins, whatever the group chooses."""
        talk = Wire().connect()
        both = tuple(
            {"name": name, "metadata": subscription(["t"])}
            for name in ("cooperative-sticky", "range")
        )
        for generation, chosen in ((1, "range"), (2, "cooperative-sticky")):
            talk.ask(
                JOIN_GROUP,
                9,
                group_id="g",
                member_id="m1-a",
                protocol_type="consumer",
                protocols=both,
            )
            talk.joined(generation=generation, protocol=chosen)
            talk.sync(generation=generation)
            (signal,) = talk.synced({"t": [0, 1] if generation == 1 else [0]})
            assert (signal.kind, signal.follow_up) == (SignalKind.SYNC, None)

        talk.join(owned={"t": [0, 1]}, protocol="cooperative-sticky")  # the other one is gone
        talk.joined(generation=3, protocol="cooperative-sticky")
        talk.sync(generation=3)
        (signal,) = talk.synced({"t": [0]})
        assert signal.follow_up is not None
        assert signal.follow_up.status == Status.REVOCATION_NEEDED

    def test_a_group_of_an_unknown_protocol_is_not_looked_into(self) -> None:
        """Confluent's Schema Registry elects its primary so."""
        talk = Wire().connect()
        talk.join(protocol="v0")
        registry = {"name": "v0", "metadata": b"\xff"}
        talk.ask(11, 9, group_id="c", protocol_type="sr", protocols=(registry,))
        talk.joined()
        talk.ask(14, 5, group_id="c", generation_id=1, member_id="m1-a")

        assert got(talk.tell(assignment=b"\xff")) == SYNC
        assert talk.wire.interpreter.counts == {}

    def test_an_odd_assignment_is_counted_and_ends_the_round(self) -> None:
        talk = Wire().connect()
        talk.join()
        talk.joined()
        talk.sync()

        assert got(talk.tell(assignment=b"\xff")) == SYNC
        assert talk.wire.interpreter.counts == {"assignment": 1}


class TestGained:
    """A sync tells how many partitions the member has that it had not before."""

    def rounds(self, talk: Talk, *given: list[int]) -> list[int | None]:
        out = []
        for generation, numbers in enumerate(given, 2):
            talk.join()
            talk.joined(generation=generation)
            talk.sync(generation=generation)
            out += [each.gained for each in talk.synced({"t": numbers})]
        return out

    def test_of_two_rounds_is_the_difference(self, talk: Talk) -> None:
        assert self.rounds(talk, [1, 2, 3], [1, 2], [1, 2]) == [2, 0, 0]

    def test_of_the_first_sync_of_a_member_in_mid_stream_is_not_known(self) -> None:
        assert [each.gained for each in Wire().connect().settle()] == [None]

    def test_of_a_new_member_is_all_it_gets(self) -> None:
        talk = Wire().connect()
        talk.join("")
        talk.joined(error=79)

        assert self.rounds(talk, [0, 1]) == [2]

    def test_of_a_member_that_left_is_all_it_gets(self, talk: Talk) -> None:
        leave(talk)

        assert self.rounds(talk, [0, 1]) == [2]

    def test_of_a_static_member_that_comes_back_is_what_it_had_not(self) -> None:
        talk = Wire().connect()
        talk.settle(group_instance_id="i1")
        talk.join("", group_instance_id="i1")
        talk.joined("m1-b")
        talk.sync("m1-b")

        assert [each.gained for each in talk.synced({"t": [0, 1, 2]})] == [1]

    def test_after_a_lost_sync_is_not_known(self, talk: Talk) -> None:
        talk.heartbeat(generation=2)
        talk.join()
        talk.joined(generation=3)
        talk.sync(generation=3)

        assert [each.gained for each in talk.synced({"t": [0]})] == [None]


def test_join_of_a_member_without_a_cause_begins_with_its_request(talk: Talk) -> None:
    """It may wait for others until the response."""
    assert got(talk.join()) == [("join", 0)]
    assert got(talk.joined(generation=2)) == []


def test_join_of_a_new_member_is_known_by_the_response() -> None:
    talk = Wire().connect()

    assert got(talk.join("")) == []
    assert got(talk.joined(generation=1)) == [("join", 0)]


def test_the_leader_is_learned_from_every_join(talk: Talk) -> None:
    talk.join()
    (signal,) = talk.joined(generation=2, leader="m2-x")

    assert signal.member.leader == "m2-x"


class TestLeaves:
    def test_close_and_unsubscribe_are_the_users(self, talk: Talk) -> None:
        assert leave(talk, reason="the consumer is being closed") == [("leave", 0)]

    def test_a_leave_without_a_reason_is_the_users(self, talk: Talk) -> None:
        assert got(talk.ask(LEAVE_GROUP, 1, group_id="g", member_id="m1-a")) == [("leave", 0)]

    def test_the_poll_timeout_drops_the_member(self, talk: Talk) -> None:
        assert leave(talk, reason="consumer poll timeout has expired.") == raised(5)

    def test_a_leave_counts_once(self, talk: Talk) -> None:
        leave(talk)

        assert leave(talk) == []

    def test_an_answer_to_what_was_asked_before_the_leave_is_void(self, talk: Talk) -> None:
        talk.ask(12, 4, group_id="g", generation_id=1, member_id="m1-a")
        heartbeat = talk.asked
        leave(talk)
        talk.asked = heartbeat

        assert got(talk.tell(error_code=25)) == []

    def test_a_join_after_a_leave_is_an_episode_of_its_own(self, talk: Talk) -> None:
        leave(talk)

        assert got(talk.join("", version=7)) == []
        assert got(talk.joined("m1-b", error=79)) == raised(2)

    def test_other_topics_after_an_unsubscribe_are_a_new_members(self, talk: Talk) -> None:
        leave(talk)

        assert got(talk.join("", topics=("u",), version=7)) == []
        assert got(talk.joined("m1-b", error=79)) == raised(2)

    def test_a_subscription_may_end_behind_its_topics_or_its_user_data(self, talk: Talk) -> None:
        """kafka-go 0.4 writes version 1 without owned partitions."""
        whole = subscription(["u"])
        for size in (len(whole), len(whole) - 4, len(whole) - 8):
            protocol = {"name": "range", "metadata": whole[:size]}
            talk.ask(
                JOIN_GROUP,
                9,
                group_id="g",
                member_id="m1-a",
                protocol_type="consumer",
                protocols=(protocol,),
            )

        assert talk.wire.counts["subscription"] == 0
        assert talk.wire.interpreter.counts["subscription"] == 0

    def test_other_topics_of_another_process_are_its_own(self, talk: Talk) -> None:
        talk.close()
        again = talk.wire.connect()

        assert got(again.join("", topics=("u",), version=7)) == []

    def test_an_admins_leave_is_nobodys_code(self, talk: Talk) -> None:
        admin = talk.wire.connect("admin")
        member = {"member_id": "m1-a", "reason": "ops"}
        signal = admin.ask(LEAVE_GROUP, 5, group_id="g", members=(member,))[0]

        assert (signal.kind, signal.reason, signal.member.client_id) == ("note", "ops", "m1")
        assert got(talk.heartbeat(error=25)) == raised(3)

    def test_an_admin_names_static_members_by_their_instance(self) -> None:
        """MemberToRemove of Java's admin client has no member id."""
        talk = Wire().connect()
        talk.settle(group_instance_id="i1")
        admin = talk.wire.connect("admin")
        rows = [
            {"member_id": "", "group_instance_id": name, "reason": "ops"} for name in ("i1", "i2")
        ]
        told_of = admin.ask(LEAVE_GROUP, 5, group_id="g", members=tuple(rows))

        assert [(s.kind, s.reason, s.member.client_id) for s in told_of] == [
            ("note", "ops", "m1"),
            ("note", "ops", ""),  # of a member that was never seen, the instance is known
        ]
        assert [s.member.group_instance_id for s in told_of] == ["i1", "i2"]
        assert {s.by for s in told_of} == {'{"client_id":"admin","host":"10.0.0.1"}'}
        assert talk.wire.interpreter.counts == {}

    def test_an_admins_leave_of_a_dynamic_stranger_names_its_client(self) -> None:
        admin = Wire().connect("admin")
        victim = {"member_id": "m9-0f8fad5b-d9cb-469f-a165-70867728950e", "reason": "ops"}
        (note,) = admin.ask(LEAVE_GROUP, 5, group_id="g", members=(victim,))

        assert (note.kind, note.reason, note.member.client_id) == ("note", "ops", "m9")

    def test_own_leave_of_a_member_whose_join_was_missed_is_no_removal(self) -> None:
        own = Wire().connect("m9")
        leaver = {"member_id": "m9-0f8fad5b-d9cb-469f-a165-70867728950e", "reason": "closed"}

        assert own.ask(LEAVE_GROUP, 5, group_id="g", members=(leaver,)) == []

    def test_who_makes_several_leave_is_none_of_them(self) -> None:
        """An admin may have the members' client id: a library's default."""
        wire = Wire()
        for member_id in ("m1-a", "m1-b"):
            wire.connect().settle(member_id)
        rows = [{"member_id": member_id, "reason": "ops"} for member_id in ("m1-a", "m1-b")]
        told_of = wire.connect().ask(LEAVE_GROUP, 5, group_id="g", members=tuple(rows))

        assert [(s.kind, s.member.member_id) for s in told_of] == [
            ("note", "m1-a"),
            ("note", "m1-b"),
        ]

    def test_an_admins_leave_of_a_stranger_is_counted(self) -> None:
        admin = Wire().connect("admin")

        assert leave(admin, "m9-a") == []
        assert admin.wire.interpreter.counts == {"removed_unknown": 1}


class TestLosses:
    def test_a_lost_sync_is_seen_by_the_next_heartbeat(self, talk: Talk) -> None:
        talk.heartbeat(error=27)
        talk.join()
        talk.joined(generation=2)
        talk.connection.skip_broker(100)
        talk.connection.skip_client(100)

        assert got(talk.heartbeat(generation=2)) == SYNC

    def test_heartbeats_between_join_and_sync_end_nothing(self, talk: Talk) -> None:
        talk.heartbeat(error=27)
        talk.join()
        talk.joined(generation=2)

        assert got(talk.heartbeat(generation=2)) == []

    def test_a_newer_generation_ends_what_was_not_seen(self, talk: Talk) -> None:
        talk.heartbeat(error=27)

        assert got(talk.heartbeat(generation=3)) == SYNC


class TestRevocations:
    """An eager Java consumer commits right before its revoke callback, and joins behind it."""

    def test_heartbeats_behind_a_commit_are_of_a_callback(self, talk: Talk) -> None:
        talk.heartbeat(error=27)
        commit(talk, 0)

        assert _partitions(talk.heartbeat(error=27)) == [()]
        assert _partitions(talk.heartbeat(error=27)) == []

    def test_a_member_that_commits_again_reads_on(self, talk: Talk) -> None:
        talk.heartbeat(error=27)
        commit(talk, 0)
        talk.heartbeat(error=27)
        talk.ask(OFFSET_COMMIT, 8, group_id="g", generation_id_or_member_epoch=1, member_id="m1-a")

        assert _partitions(talk.tell()) == [("t-0", "t-1")]
        assert _partitions(talk.heartbeat(error=27)) == [()]

    def test_a_commit_before_the_news_is_of_no_callback(self, talk: Talk) -> None:
        commit(talk, 0)
        talk.heartbeat(error=27)

        assert _partitions(talk.heartbeat(error=27)) == []

    def test_a_cooperative_member_reads_on(self) -> None:
        talk = Wire().connect()
        talk.settle(protocol="cooperative-sticky")
        talk.heartbeat(error=27)
        commit(talk, 0)

        assert _partitions(talk.heartbeat(error=27)) == []

    def test_librdkafka_commits_in_the_background(self) -> None:
        talk = Wire().connect()
        talk.ask(18, 3, client_software_name="librdkafka", client_software_version="2.3.0")
        talk.settle()
        talk.heartbeat(error=27)
        commit(talk, 0)

        assert _partitions(talk.heartbeat(error=27)) == []

    def test_the_next_rebalance_begins_anew(self, talk: Talk) -> None:
        talk.heartbeat(error=27)
        commit(talk, 0)
        talk.settle(generation=2)
        talk.heartbeat(generation=2, error=27)

        assert _partitions(talk.heartbeat(generation=2, error=27)) == []


def _partitions(signals: list[Signal]) -> list[tuple[str, ...]]:
    return [signal.assigned for signal in signals if signal.assigned is not None]


class TestPorts:
    @pytest.mark.parametrize("version", [2, 4])
    def test_coordinators_tell_where_brokers_listen(self, talk: Talk, version: int) -> None:
        talk.ask(FIND_COORDINATOR, version, key="g", coordinator_keys=("g",))
        talk.tell(host="b2", port=9093, coordinators=({"key": "g", "host": "b2", "port": 9093},))

        assert [*talk.wire.interpreter.ports] == [9093]

    @pytest.mark.parametrize(("api", "version"), [(METADATA, 12), (DESCRIBE_CLUSTER, 0)])
    def test_so_does_what_describes_the_cluster(self, talk: Talk, api: int, version: int) -> None:
        talk.ask(api, version)
        nodes = [{"host": f"b{port}", "port": port} for port in (9094, 9093, 9094, -1, 1 << 16)]
        key = "node_id" if api == METADATA else "broker_id"
        talk.tell(brokers=tuple({key: i, **node} for i, node in enumerate(nodes)))

        assert [*talk.wire.interpreter.ports] == [9093, 9094]

    def test_a_coordinator_that_is_not_available_has_none(self, talk: Talk) -> None:
        talk.ask(FIND_COORDINATOR, 4, coordinator_keys=("g",))
        talk.tell(coordinators=({"key": "g", "host": "", "port": -1, "error_code": 15},))

        assert not talk.wire.interpreter.ports

    def test_the_latest_of_many_are_kept(self, talk: Talk) -> None:
        for port in [*range(10_000, 10_100), 10_050]:
            talk.ask(FIND_COORDINATOR, 2, key="g")
            talk.tell(host="b", port=port)

        kept = [*talk.wire.interpreter.ports]
        assert (len(kept), kept[-2:]) == (64, [10_099, 10_050])


def test_the_member_is_known_by_all_that_was_seen(talk: Talk) -> None:
    talk.ask(18, 3, client_software_name="apache-kafka-java", client_software_version="4.3.0")
    signal = talk.heartbeat(error=27)[0]

    assert signal.status is Status.COORDINATOR_REQUESTED
    assert signal.member == replace(
        signal.member,
        group="g",
        client_id="m1",
        member_id="m1-a",
        assignor="range",
        host="10.0.0.1",
        software="apache-kafka-java 4.3.0",
        protocol_type="consumer",
        origin="10.0.0.1:50001",
    )


def reasons_of(signals: list[Signal]) -> list[str | None]:
    return [each.reason for each in signals if each.status]


class TestReturns:
    """A leave without a reason, and a join on the same connection (the interval is 300 s)."""

    POLLS: ClassVar[dict[str, Any]] = {"rebalance_timeout": timedelta(minutes=5)}

    def settled(self, software: str = "apache-kafka-java") -> Talk:
        talk = Wire().connect()
        talk.ask(API_VERSIONS, 3, client_software_name=software, client_software_version="2.8.2")
        talk.settle(**self.POLLS)
        return talk

    def back(self, talk: Talk, after_s: float, *, new: Talk | None = None) -> list[Signal]:
        """Leave ``after_s`` later and join again; return the join's signals."""
        talk.wire.at += after_s
        leave(talk)
        talk.wire.at += 20.0
        return (new or talk).join("", **self.POLLS)

    def test_member_that_had_stopped_its_commits_was_dropped(self) -> None:
        talk = self.settled()
        commit(talk, 0)

        (note,) = self.back(talk, 300.0)

        assert (note.kind, note.status) == (SignalKind.NOTE, Status.DROPPED_GROUP)
        assert note.reason is not None
        assert note.reason.startswith("no reason given, back 21.0 s later on the same connection")

    def test_member_that_never_committed_may_have_unsubscribed(self) -> None:
        (note,) = self.back(self.settled(), 300.0)

        assert (note.kind, note.status) == (SignalKind.NOTE, Status.USER_REQUESTED)
        assert note.reason is not None
        assert note.reason.endswith("a poll timeout, or unsubscribe()")

    @pytest.mark.parametrize("software", ["apache-kafka-java", "confluent-rdkafka"])
    def test_commit_within_the_interval_shows_that_it_unsubscribed(self, software: str) -> None:
        talk = self.settled(software)
        talk.wire.at += 300.0
        commit(talk, 0)

        assert self.back(talk, 280.0) == []

    def test_librdkafka_commits_some_seconds_after_the_poll(self) -> None:
        talk = self.settled("confluent-kafka-python 2.3.0-rdkafka")
        commit(talk, 0)

        assert len(self.back(talk, 294.0)) == 1

    def test_librdkafka_joins_again_without_a_poll(self) -> None:
        talk = self.settled("librdkafka")
        talk.wire.at += 299.0
        talk.settle(generation=2, **self.POLLS)

        assert self.back(self.settled(), 290.0) == []
        assert len(self.back(talk, 1.0)) == 1

    def test_another_connection_is_another_process(self) -> None:
        talk = self.settled()

        assert self.back(talk, 300.0, new=talk.wire.connect()) == []

    def test_client_without_a_poll_interval_is_not_dropped(self) -> None:
        assert self.back(self.settled("sarama"), 300.0) == []


class TestRights:
    """A client may lose a right while it is a member."""

    REFUSED: ClassVar[list[tuple[str, int]]] = [("refuse", 0)]

    def test_refused_heartbeat_and_commit(self, talk: Talk) -> None:
        assert got(talk.heartbeat(error=30)) == self.REFUSED
        assert commit(talk, 0, 29) == self.REFUSED

    @pytest.mark.parametrize("version", [3, 4])
    def test_refused_lookup_of_the_coordinator_on_another_connection(self, version: int) -> None:
        talk = Wire().connect()
        talk.settle()
        other = talk.wire.connect(talk.client_id)
        key = {"key": "g"} if version == 3 else {"coordinator_keys": ("g",)}
        other.ask(FIND_COORDINATOR, version, key_type=0, **key)
        row = {"error_code": 30, "host": "", "port": -1, "node_id": -1}
        found = other.tell(**row if version == 3 else {"coordinators": ({"key": "g", **row},)})

        assert got(found) == [("fail", 0)]
        assert found[0].reason == "FindCoordinator answered GROUP_AUTHORIZATION_FAILED"

    @pytest.mark.parametrize(("error", "told"), [(58, [("refuse", 0)]), (0, [])])
    def test_refused_credentials_of_a_connection(
        self, talk: Talk, error: int, told: list[tuple[str, int]]
    ) -> None:
        """A client authenticates again within its connection (KIP-368)."""
        talk.ask(SASL_AUTHENTICATE, 2, auth_bytes=b"token")
        found = talk.tell(error_code=error, error_message="", auth_bytes=b"")

        assert got(found) == told
        assert all("token" not in (each.reason or "") for each in found)

    def test_lookup_by_an_unknown_client_is_nobodys(self, talk: Talk) -> None:
        admin = talk.wire.connect("adminclient-1")
        admin.ask(FIND_COORDINATOR, 3, key="g", key_type=0)

        assert got(admin.tell(error_code=30, host="", port=-1, node_id=-1)) == []

    def test_refused_topics_of_a_metadata_response(self, talk: Talk) -> None:
        other = talk.wire.connect(talk.client_id)
        topics = ({"name": "t", "error_code": 29}, {"name": "u", "error_code": 3})
        found = []
        for _ in range(2):  # once in a while
            other.ask(METADATA, 12)
            found += other.tell(topics=topics, brokers=())

        assert [(each.kind.value, each.reason) for each in found] == [
            ("refuse", "Metadata answered TOPIC_AUTHORIZATION_FAILED for t")
        ]

    def test_refused_topics_of_another_subscription_are_nobodys(self, talk: Talk) -> None:
        other = talk.wire.connect(talk.client_id)
        other.ask(METADATA, 12)

        assert got(other.tell(topics=({"name": "u", "error_code": 29},), brokers=())) == []
