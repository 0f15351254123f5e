"""Member identity over connections, brokers and processes."""

import sys
from dataclasses import fields
from typing import Any

from agent.wire.codec.messages import HostPort
from agent.wire.members.member import WireMember
from metrics.model.signals import Member, MemberKey
from tests.agent.wire.frames import DESCRIBE_CLUSTER, LEAVE_GROUP, METADATA
from tests.agent.wire.talk import Talk, Wire, got
from tests.agent.wire.user_data import subscription_info

THREAD = "app-StreamThread-{}-consumer"


def member(talk: Talk, member_id: str = "m1-a") -> Member:
    return talk.heartbeat(member_id)[0].member


def key(talk: Talk, member_id: str = "m1-a") -> MemberKey:
    return member(talk, member_id).key


def join_new(talk: Talk, member_id: str) -> MemberKey:
    talk.join("")
    return talk.joined(member_id, error=79)[0].member.key


class TestConsumers:
    def test_a_member_id_joins_connections_and_brokers(self) -> None:
        wire = Wire()
        first, second = wire.connect(), wire.connect(server=HostPort("10.0.0.8", 9092))

        assert key(first) == key(second)

    def test_one_rebalance_over_two_coordinators_is_one_episode(self) -> None:
        wire = Wire()
        old, new = wire.connect(), wire.connect(server=HostPort("10.0.0.8", 9092))
        old.join("")
        assert got(old.joined(error=79)) == [("raise", 2)]
        old.join()
        old.close()
        new.join()
        assert got(new.joined(error=14)) == [("raise", 9)]
        new.join()
        assert got(new.joined(error=25)) == [("raise", 3)]
        new.join("")
        assert got(new.joined("m1-b", error=79)) == []
        new.join("m1-b")
        new.joined("m1-b")
        new.sync("m1-b")
        assert got(new.synced()) == [("sync", 0)]

    def test_a_new_member_id_on_the_same_connection_is_the_same_member(self) -> None:
        talk = Wire().connect()

        assert key(talk) == join_new(talk, "m1-b")

    def test_two_clients_of_one_name_are_two_members(self) -> None:
        wire = Wire()

        assert join_new(wire.connect("rdkafka"), "a") != join_new(wire.connect("rdkafka"), "b")

    def test_a_client_that_comes_back_is_the_same_member(self) -> None:
        wire = Wire()
        talk = wire.connect()
        before = join_new(talk, "m1-a")
        talk.close()

        assert join_new(wire.connect(), "m1-b") == before

    def test_of_several_of_one_name_none_is_another_one_that_has_ended(self) -> None:
        wire = Wire()
        first, second = wire.connect(), wire.connect()
        before = {join_new(first, "m1-a"), join_new(second, "m1-b")}
        first.close()
        second.close()

        assert join_new(wire.connect(), "m1-c") not in before

    def test_of_several_of_one_name_the_only_one_that_has_ended_is_back(self) -> None:
        wire = Wire()
        first, second = wire.connect(), wire.connect()
        before = join_new(first, "m1-a")
        join_new(second, "m1-b")
        first.close()

        assert join_new(wire.connect(), "m1-c") == before

    def test_a_cause_is_told_anew_by_a_client_that_comes_back(self) -> None:
        wire = Wire()
        talk = wire.connect()
        join_new(talk, "m1-a")
        talk.close()

        talk = wire.connect()
        talk.join("")
        assert got(talk.joined("m1-b", error=79)) == [("raise", 2)]

    def test_a_client_on_another_host_is_another_one(self) -> None:
        wire = Wire()
        talk = wire.connect()
        before = join_new(talk, "m1-a")
        talk.close()

        assert join_new(wire.connect(host="10.0.0.2"), "m1-b") != before

    def test_a_static_member_is_known_by_its_instance_id_wherever_it_runs(self) -> None:
        wire = Wire()
        keys = set()
        for host in ("10.0.0.1", "10.0.0.2"):
            talk = wire.connect(host=host)
            talk.join("", group_instance_id="i1")
            keys.add(talk.joined(f"i1-{host}")[0].member.key)

        assert keys == {MemberKey("", "g", "m1", "i1")}

    def test_both_sides_of_a_proxy_carry_one_member(self) -> None:
        wire = Wire()
        outside, inside = wire.connect(), wire.connect(host="10.0.0.5")
        outside.join("")
        inside.join("")
        inside.joined(error=79)

        assert got(outside.joined(error=79)) == []
        assert key(outside) == key(inside)

    def test_a_port_that_is_used_again_makes_no_twin(self) -> None:
        wire = Wire()
        first = wire.connect()
        before = join_new(first, "m1-a")
        wire.ports -= 1

        assert join_new(wire.connect(), "m1-b") != before

    def test_the_longest_silent_is_forgotten_first(self) -> None:
        wire = Wire()
        speakers = wire.interpreter.registry
        speakers.limit = 2
        talks = [wire.connect(name) for name in ("a", "b", "c")]
        for talk in talks:
            talk.heartbeat(talk.client_id)

        assert [key.client_id for key in speakers._by_key] == ["b", "c"]
        assert wire.interpreter.counts["member_evicted"] == 1
        assert talks[0].members() == []
        assert key(talks[0], "a").client_id == "a"

    def test_an_ended_connection_leaves_no_state(self) -> None:
        wire = Wire()
        talk = wire.connect("a")
        talk.heartbeat("a-1")
        talk.ask(12, 4, group_id="g", generation_id=1, member_id="a-1")

        talk.close()

        assert wire.interpreter.registry._states == {}

    def test_an_answer_for_one_that_is_forgotten_is_void(self) -> None:
        wire = Wire()
        wire.interpreter.registry.limit = 1
        talk, other = wire.connect("a"), wire.connect("b")
        talk.join("")
        other.heartbeat("b-1")

        assert talk.joined("b-1", error=79) == []
        assert talk.joined("a-1") == []
        assert key(other, "b-1").client_id == "b"

    def test_a_member_id_of_another_client_moves_on(self) -> None:
        wire = Wire()
        first, second = wire.connect("a"), wire.connect("b")

        assert [key(talk, "x").client_id for talk in (first, second, first)] == ["a", "b", "a"]

    def test_nothing_long_is_kept_of_one_that_left_and_has_gone(self) -> None:
        wire = Wire()
        talk = wire.connect()
        many = [*range(100)]
        talk.settle(topics=tuple(f"t{number}" for number in many), owned={"t": many})
        talk.ask(LEAVE_GROUP, 5, group_id="g", members=({"member_id": "m1-a"},))
        talk.close()

        speaker = wire.interpreter.registry.find_by_id("g", "m1-a")
        kept = {each.name: getattr(speaker, each.name) for each in fields(WireMember)}
        assert {name for name, it in kept.items() if sys.getsizeof(it) > 300} == set()


class TestCluster:
    def test_metadata_names_the_cluster(self) -> None:
        wire = Wire()
        talk = wire.connect()
        talk.ask(METADATA, 12)
        talk.tell(cluster_id="abc", brokers=({"host": "h", "port": 1},))

        assert member(wire.connect(server=HostPort("10.0.0.8", 9092))).cluster == "abc"

    def test_describe_cluster_does_too(self) -> None:
        talk = Wire().connect()
        talk.ask(DESCRIBE_CLUSTER, 1)
        talk.tell(cluster_id="abc")

        assert member(talk).cluster == "abc"

    def test_of_two_clusters_a_broker_that_told_nothing_is_in_none(self) -> None:
        wire = Wire()
        for number in (1, 2):
            talk = wire.connect(server=HostPort(f"10.0.1.{number}", 9092))
            talk.ask(METADATA, 5)
            talk.tell(cluster_id=f"c{number}")

        assert member(wire.connect()).cluster == ""

    def test_the_configured_name_rules(self) -> None:
        wire = Wire()
        wire.interpreter.registry.cluster = "prod"

        assert member(wire.connect()).cluster == "prod"


class TestStreams:
    def thread(self, wire: Wire, number: int, process: int) -> Talk:
        talk = wire.connect(THREAD.format(number))
        user_data = subscription_info(11, process=process)
        talk.settle(f"{number}-{wire.ports}", protocol="stream", user_data=user_data)
        return talk

    def stream(self, talk: Talk) -> str:
        [member] = talk.members()
        return member.identity.origin

    def test_the_threads_of_a_process_are_one_instance(self) -> None:
        wire = Wire()
        first, second = self.thread(wire, 1, 7), self.thread(wire, 2, 7)

        assert self.stream(first) == self.stream(second)

    def test_two_processes_of_one_name_are_two_instances(self) -> None:
        wire = Wire()
        first, second = self.thread(wire, 1, 7), self.thread(wire, 1, 8)

        assert self.stream(first) != self.stream(second)

    def test_a_process_that_starts_again_is_the_same_instance(self) -> None:
        wire = Wire()
        first = self.thread(wire, 1, 7)
        before = self.stream(first)
        first.close()

        assert self.stream(self.thread(wire, 2, 8)) == before

    def test_so_is_a_thread_whose_former_connection_still_ends(self) -> None:
        wire = Wire()
        former, other = self.thread(wire, 1, 7), self.thread(wire, 2, 7)
        [before] = former.members()
        other.close()

        thread = self.thread(wire, 1, 7)

        [after] = thread.members()
        assert after.identity.key == before.identity.key
        assert self.stream(self.thread(wire, 2, 7)) == self.stream(thread)
        former.close()
        assert [*after.connections] == [thread.connection]

    def test_both_sides_of_a_proxy_on_its_host_carry_one_thread(self) -> None:
        wire = Wire()
        outside, inside = wire.connect(THREAD.format(1)), wire.connect(THREAD.format(1))
        how: Any = {"protocol": "stream", "user_data": subscription_info(11, process=7)}

        for side in (outside, inside):
            side.join("", **how)
        assert got(inside.joined("1-x", error=79)) == [("raise", 2)]
        assert got(outside.joined("1-x", error=79)) == []
        for side in (outside, inside):
            side.join("1-x", **how)

        assert key(outside, "1-x") == key(inside, "1-x")
        assert len(wire.interpreter.registry._by_key) == 1

    def test_a_process_that_is_not_known_yet_is_the_one_of_its_host(self) -> None:
        wire = Wire()
        silent = wire.connect(THREAD.format(1))
        silent.heartbeat("1-x")

        assert self.stream(silent) == self.stream(self.thread(wire, 2, 7))
