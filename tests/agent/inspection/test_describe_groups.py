"""Listing and describing against brokers that answer as the test wants."""

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import pytest

from agent.inspection.connection.admin_requests import Api
from agent.inspection.connection.broker_pool import BrokerPool
from agent.inspection.connection.errors import UnreachableError
from agent.inspection.connection.security import Security
from agent.inspection.describe_groups import describe_groups
from agent.inspection.list_groups import ClusterListing, ListingCache, list_groups
from agent.inspection.model import Description, Failure, GroupState, GroupType
from agent.wire.codec.schema import Fields
from tests.agent.inspection.simulated import HOST, KAFKA_28, Group, Simulated
from tests.agent.wire.frames import subscription

NOT_COORDINATOR, NOT_AVAILABLE, LOADING, DENIED, UNKNOWN_SERVER_ERROR = 16, 15, 14, 30, -1
PATIENCE_S = 90.0
_T = TypeVar("_T")


def asked(cluster: Simulated, ask: Callable[[BrokerPool], Awaitable[_T]]) -> _T:
    async def run() -> _T:
        bootstrap = [(HOST, port) for port in cluster.ports.values()]
        brokers = BrokerPool(bootstrap, Security, timeout_s=10.0)
        try:
            return await ask(brokers)
        finally:
            await brokers.close()

    return asyncio.run(run())


def listed(cluster: Simulated, patience_s: float = PATIENCE_S) -> ClusterListing:
    async def ask(brokers: BrokerPool) -> ClusterListing:
        return await list_groups(brokers, await brokers.refresh(), patience_s)

    return asked(cluster, ask)


def described(
    cluster: Simulated, *names: str, kind: GroupType | None = None, patience_s: float = PATIENCE_S
) -> list[Description | Failure]:
    return asked(
        cluster,
        lambda brokers: describe_groups(
            brokers, names, kind, authorized_operations=True, timeout_s=patience_s
        ),
    )


def four_types(node_ids: tuple[int, ...] = (1, 1, 1, 1)) -> dict[str, Group]:
    kinds = ("classic", "consumer", "share", "streams")
    protocols = ("consumer", "consumer", "share", "streams")
    return {
        f"{kind}-1": Group(
            type=kind,
            node_id=node_id,
            protocol=protocol,
            epoch=7,
            members={"m-1": {"t": [1, 0]}, "m-2": {"t": [2]}},
        )
        for kind, protocol, node_id in zip(kinds, protocols, node_ids, strict=True)
    }


def test_every_brokers_groups_are_listed_together() -> None:
    with Simulated(four_types((1, 2, 3, 1)), nodes=3) as cluster:
        groups, down = listed(cluster)

    assert [(g.group, g.type, g.coordinator.node_id) for g in groups] == [
        ("classic-1", GroupType.CLASSIC, 1),
        ("consumer-1", GroupType.CONSUMER, 2),
        ("share-1", GroupType.SHARE, 3),
        ("streams-1", GroupType.STREAMS, 1),
    ]
    assert down == ()


def test_a_broker_that_is_down_is_named_and_the_others_groups_are_listed() -> None:
    with Simulated(four_types((1, 2, 3, 1)), nodes=3) as cluster:
        cluster.kill(2)

        groups, down = listed(cluster)

        assert [g.group for g in groups] == ["classic-1", "share-1", "streams-1"]
        assert [(d.node_id, d.address) for d in down] == [(2, f"{HOST}:{cluster.ports[2]}")]


def test_a_broker_that_the_cluster_has_fenced_is_named() -> None:
    with Simulated(four_types(), nodes=3, fenced={3}) as cluster:
        groups, down = listed(cluster)

    assert (len(groups), [(d.node_id, d.reason) for d in down]) == (4, [(3, "fenced")])


def test_a_bootstrap_server_that_is_down_is_passed_over_and_named_once() -> None:
    with Simulated(four_types(), nodes=2) as cluster:
        cluster.kill(1)

        _, down = listed(cluster)

    assert [d.node_id for d in down] == [1]


def test_where_no_broker_answers_all_are_named() -> None:
    with Simulated(nodes=2) as cluster:
        cluster.kill(1)
        cluster.kill(2)

        with pytest.raises(UnreachableError) as caught:
            listed(cluster)

    assert all(f"{HOST}:{port}" in str(caught.value) for port in cluster.ports.values())


def test_a_list_of_a_coordinator_that_loads_is_waited_for() -> None:
    with Simulated(four_types()) as cluster:
        cluster.errors[Api.LIST_GROUPS, ""] = [LOADING, LOADING]

        groups, down = listed(cluster)

    assert (len(groups), down) == (4, ())


def test_a_broker_whose_list_fails_is_named() -> None:
    with Simulated(four_types((1, 2, 1, 1)), nodes=2) as cluster:
        cluster.errors[Api.LIST_GROUPS, ""] = [UNKNOWN_SERVER_ERROR]

        groups, down = listed(cluster)

    assert len(groups) in {1, 3}  # either may have been asked first
    assert [(d.reason, d.error.partition(": ")[2]) for d in down] == [
        ("list_groups", "ListGroups: UNKNOWN_SERVER_ERROR")
    ]


def test_what_a_member_has_written_in_no_known_format_is_left_out() -> None:
    with Simulated({"odd": Group(members={"m-1": {"t": [0]}}, garbled=True)}) as cluster:
        (odd,) = described(cluster, "odd")

    assert isinstance(odd, Description)
    assert (odd.members[0].subscription, odd.members[0].owned) == (None, None)


def test_an_unknown_state_and_type_are_unknown_and_older_names_are_mapped() -> None:
    states = ["AwaitingSync", "Rebalancing", "Initializing", "Daydreaming", "Stable"]
    groups = {state: Group(state=state) for state in states}
    groups["novel"] = Group(type="novel")
    with Simulated(groups) as cluster:
        found = {g.group: g for g in listed(cluster).groups}

    assert [found[state].state for state in states] == [
        GroupState.COMPLETING_REBALANCE,
        GroupState.PREPARING_REBALANCE,
        GroupState.UNKNOWN,
        GroupState.UNKNOWN,
        GroupState.STABLE,
    ]
    assert found["novel"].type is GroupType.UNKNOWN


def test_an_older_broker_lists_no_types() -> None:
    with Simulated(four_types(), versions=KAFKA_28) as cluster:
        groups = listed(cluster).groups

    assert {(g.type, g.state) for g in groups} == {(None, GroupState.STABLE)}


def test_groups_of_all_types_are_described_in_the_order_asked_for() -> None:
    names = ["streams-1", "classic-1", "share-1", "consumer-1"]
    with Simulated(four_types((1, 2, 3, 1)), nodes=3) as cluster:
        found = described(cluster, *names)

    groups = [each for each in found if isinstance(each, Description)]
    assert [each.group for each in groups] == names
    streams, classic, share, consumer = groups
    assert (classic.epoch, classic.assignor, classic.simple) == (None, "range", False)
    assert [m.owned for m in classic.members] == [{"t": (0, 1)}, {"t": (2,)}]
    assert [m.subscription for m in classic.members] == [("t",), ("t",)]
    assert (consumer.epoch, consumer.target_epoch, consumer.assignor) == (7, 7, "uniform")
    assert consumer.members[0].target == {"t": (0, 1)}
    assert share.members[0].epoch == 7
    assert streams.members[0].owned == {"active": {"t": (0, 1)}, "standby": {}, "warmup": {}}
    assert {each.authorized_operations for each in groups} == {("READ", "DESCRIBE")}


def test_what_is_in_no_consumers_format_is_left_undecoded() -> None:
    group = Group(protocol="connect", members={"w-1": {"t": [0]}})
    with Simulated({"connect": group, "offsets": Group(protocol="", state="Empty")}) as cluster:
        connect, offsets = described(cluster, "connect", "offsets")

    assert isinstance(connect, Description)
    assert isinstance(offsets, Description)
    assert (connect.members[0].subscription, connect.members[0].owned) == (None, None)
    assert (connect.simple, offsets.simple) == (False, True)


def test_a_members_own_words_are_described_in_full() -> None:
    metadata = subscription(["t"], {"t": [1]}, b"weight=3", version=3)
    metadata += struct.pack(">ih", 7, 6) + b"rack-1"
    groups = {
        "text": Group(members={"m-1": {"t": [0]}}, metadata=metadata, user_data=b"\xff\xfe"),
        "plain": Group(members={"m-1": {"t": [0]}}),
    }
    with Simulated(groups) as cluster:
        text, plain = described(cluster, "text", "plain")

    assert isinstance(text, Description)
    assert isinstance(plain, Description)
    (member,), (bare,) = text.members, plain.members
    assert (member.rack, member.claimed, member.claimed_generation) == ("rack-1", {"t": (1,)}, 7)
    assert member.user_data == "weight=3"
    assert member.assignment_user_data == "2 bytes, sha256 b3d510ef04275ca8"
    assert (bare.rack, bare.claimed, bare.user_data) == (None, {}, None)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def rows(owned: dict[str, list[int]]) -> bytes:
    out = struct.pack(">i", len(owned))
    for name, numbers in owned.items():
        out += text(name) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return out


def connect_assignment(owned: dict[str, list[int]], revoked: dict[str, list[int]]) -> bytes:
    head = struct.pack(">hh", 1, 0) + text("w-1") + text("http://w1:8083") + bytes(8)
    return head + rows(owned) + rows(revoked) + bytes(4)


def test_workers_of_connect_are_described_with_leader_connectors_and_tasks() -> None:
    before = connect_assignment({"sink": [-1, 0, 1], "old": [0]}, {})
    metadata = struct.pack(">h", 1) + text("http://w1:8083") + bytes(8)
    metadata += struct.pack(">i", len(before)) + before
    assigned = connect_assignment({"sink": [2]}, {"old": [0], "sink": [0]})
    group = Group(protocol="connect", members={"w-1": {}}, content={"w-1": (metadata, assigned)})
    with Simulated({"connect": group}) as cluster:
        (connect,) = described(cluster, "connect")

    assert isinstance(connect, Description)
    (worker,) = connect.members
    assert (connect.leader, connect.leader_url) == ("w-1", "http://w1:8083")
    assert (worker.url, worker.connectors) == ("http://w1:8083", ("sink",))
    assert worker.owned == {"sink": (1, 2)}


@pytest.mark.parametrize("leader", ["master", "leader"])
def test_schema_registries_are_described_with_url_and_leader(leader: str) -> None:
    identity = {"version": 1, "host": "sr1", "port": 8081, "scheme": "https"}
    assigned = {"error": 0, "version": 1, leader: "sr-1", f"{leader}_identity": identity}
    content = (json.dumps(identity).encode(), json.dumps(assigned).encode())
    group = Group(protocol="sr", members={"sr-1": {}}, content={"sr-1": content})
    with Simulated({"schema-registry": group}) as cluster:
        (registry,) = described(cluster, "schema-registry")

    assert isinstance(registry, Description)
    assert (registry.leader, registry.leader_url) == ("sr-1", "https://sr1:8081")
    assert registry.members[0].url == "https://sr1:8081"


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"no json", b'{"host": 1}', b'{"master": 2}', b"[" * 50_000]
)
def test_an_unknown_format_of_a_schema_registry_adds_nothing(content: bytes) -> None:
    group = Group(protocol="sr", members={"sr-1": {}}, content={"sr-1": (content, content)})
    with Simulated({"schema-registry": group}) as cluster:
        (registry,) = described(cluster, "schema-registry")

    assert isinstance(registry, Description)
    assert (registry.leader, registry.members[0].url) == (None, None)


def test_a_group_of_another_type_is_named_as_such() -> None:
    with Simulated(four_types()) as cluster:
        answers = described(cluster, "classic-1", "share-1", "nope", kind=GroupType.CONSUMER)

    assert [each.error for each in answers if isinstance(each, Failure)] == [
        "is a classic consumer group, not a consumer group",
        "is a share group, not a consumer group",
        "GROUP_ID_NOT_FOUND: Group nope not found.",
    ]


@pytest.mark.parametrize("kind", [None, GroupType.CLASSIC, GroupType.CONSUMER])
def test_a_dead_group_of_an_older_broker_is_not_found(kind: GroupType | None) -> None:
    with Simulated(versions=KAFKA_28) as cluster:
        (answer,) = described(cluster, "nope", kind=kind)

    assert answer == Failure(
        group="nope",
        code="GROUP_ID_NOT_FOUND",
        error="GROUP_ID_NOT_FOUND: Group nope not found.",
    )


def test_a_denied_group_says_what_is_wanted_and_is_not_asked_for_again() -> None:
    with Simulated(four_types()) as cluster:
        cluster.errors[Api.FIND_COORDINATOR, "classic-1"] = [DENIED]

        (answer,) = described(cluster, "classic-1")

        assert isinstance(answer, Failure)
        assert answer.error == ("GROUP_AUTHORIZATION_FAILED: an ACL for Describe on it is wanted")
        assert cluster.asked[1, Api.FIND_COORDINATOR] == 1


def test_a_group_that_an_answer_leaves_out_is_told() -> None:
    with Simulated(four_types(), omitted={"share-1"}) as cluster:
        answers = described(cluster, "share-1", "streams-1", kind=GroupType.SHARE)

    assert [each.error for each in answers if isinstance(each, Failure)] == [
        "NO_ANSWER: the response does not contain it",
        "is a streams group, not a share group",
    ]


@dataclass(slots=True)
class _Talkative(Simulated):
    """Broker 1 reports all groups as empty ones, whoever coordinates them."""

    def _describe(self, node_id: int, api: Api, asked: Fields) -> Fields:
        fields = Simulated._describe(self, node_id, api, asked)
        empty = [{"group_id": name, "group_state": "Empty"} for name in self.groups]
        return {"groups": [*fields["groups"], *empty][::-1]} if node_id == 1 else fields


def test_a_broker_describes_only_the_groups_that_it_coordinates() -> None:
    owned = {"c-a": {"t": [0]}}
    groups = {name: Group(node_id=2, members=owned) for name in ("a", "z")}
    with _Talkative(groups | {"m": Group(members=owned)}, nodes=2) as cluster:
        answers = described(cluster, "a", "m", "z", kind=GroupType.CLASSIC)

    assert [len(each.members) for each in answers if isinstance(each, Description)] == [1, 1, 1]


@pytest.mark.parametrize("code", [NOT_COORDINATOR, NOT_AVAILABLE, LOADING])
@pytest.mark.parametrize("api", [Api.FIND_COORDINATOR, Api.CONSUMER_GROUP_DESCRIBE])
def test_what_goes_away_is_asked_again_after_a_new_look_up(api: Api, code: int) -> None:
    with Simulated(four_types()) as cluster:
        cluster.errors[api, "consumer-1"] = [code]

        answers = described(cluster, "consumer-1", "classic-1")

        assert [type(answer) for answer in answers] == [Description, Description]
        assert cluster.asked[1, Api.FIND_COORDINATOR] == 2


def test_what_does_not_go_away_is_told_when_patience_ends() -> None:
    with Simulated(four_types()) as cluster:
        cluster.errors[Api.FIND_COORDINATOR, "classic-1"] = [NOT_AVAILABLE] * 99

        (answer,) = described(cluster, "classic-1", patience_s=0.5)

        assert isinstance(answer, Failure)
        assert answer.code == "COORDINATOR_NOT_AVAILABLE"
        assert 1 <= cluster.asked[1, Api.FIND_COORDINATOR] <= 4


def test_a_coordinator_that_dies_is_replaced_by_the_next() -> None:
    with Simulated(four_types((2, 2, 2, 2)), nodes=2) as cluster:

        async def ask(brokers: BrokerPool) -> list[Description | Failure]:
            await describe_groups(brokers, ["share-1"], timeout_s=PATIENCE_S)
            cluster.kill(2)
            cluster.groups["share-1"].node_id = 1
            return await describe_groups(brokers, ["share-1"], timeout_s=PATIENCE_S)

        (answer,) = asked(cluster, ask)

    assert isinstance(answer, Description)
    assert answer.coordinator.node_id == 1


def test_a_listing_that_is_as_before_is_not_decoded_again() -> None:
    with Simulated(four_types((1, 1, 2, 2)), nodes=2) as cluster:

        async def ask(brokers: BrokerPool) -> tuple[ListingCache, list[ClusterListing]]:
            cache = ListingCache()
            view = await brokers.refresh()
            listings = [await list_groups(brokers, view, PATIENCE_S, cache) for _ in range(2)]
            cluster.groups["classic-1"].state = "PreparingRebalance"
            listings.append(await list_groups(brokers, view, PATIENCE_S, cache))
            one_left = replace(view, nodes=view.nodes[:1])
            return cache, [*listings, await list_groups(brokers, one_left, PATIENCE_S, cache)]

        cache, (first, second, third, fourth) = asked(cluster, ask)

    assert all(a is b for a, b in zip(first.groups, second.groups, strict=True))
    assert [third.groups[0].state, third.groups[1:]] == [
        GroupState.PREPARING_REBALANCE,
        first.groups[1:],
    ]
    assert (len(fourth.groups), len(cache)) == (2, 1)


def test_a_broker_that_came_back_is_asked_over_a_new_connection() -> None:
    with Simulated(four_types()) as cluster:

        async def ask(brokers: BrokerPool) -> ClusterListing:
            await brokers.refresh()
            cluster.drop_connections()
            async with asyncio.timeout(30.0):
                while any(each.is_usable for each in brokers._connections.values()):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            return await list_groups(brokers, await brokers.refresh(), PATIENCE_S)

        groups, down = asked(cluster, ask)

    assert (len(groups), down) == (4, ())


def test_many_groups_are_looked_up_at_once_and_described_in_batches() -> None:
    groups = {f"g-{n:03}": Group(type="consumer") for n in range(120)}
    with Simulated(groups) as cluster:
        answers = described(cluster, *groups, kind=GroupType.CONSUMER)

        assert {type(answer) for answer in answers} == {Description}
        assert cluster.asked[1, Api.FIND_COORDINATOR] == 1
        assert cluster.asked[1, Api.CONSUMER_GROUP_DESCRIBE] == 3
        assert cluster.most_at_once == 1


def test_an_older_broker_is_asked_for_one_coordinator_at_a_time() -> None:
    with Simulated({"a": Group(), "b": Group()}, versions=KAFKA_28) as cluster:
        answers = described(cluster, "a", "b")

        assert {type(answer) for answer in answers} == {Description}
        assert cluster.asked[1, Api.FIND_COORDINATOR] == 2
