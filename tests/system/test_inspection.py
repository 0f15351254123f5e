"""Groups of every kind at real brokers, as we and as Kafka's own tools show them."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from agent.lab.clients import Clients
from tests.system.inspected import (
    CONSUMER_GROUPS,
    DEADLINE_S,
    SHARE_GROUPS,
    STREAMS_GROUPS,
    groups_of,
    listed,
    ours,
    rows,
    same_consumer_groups,
    same_list,
    same_state,
    shown,
    spelled,
    until,
)
from tests.system.observer import Observer
from tests.system.zoo import Zoo

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900)]

_SOURCE = """\
{{type: groups, interval: 1s}}
cluster: {{name: zoo, bootstrap_servers: {bootstrap}}}
"""


TYPED = ("classic", "consumer", "offsets")
_OFFSETS = (
    "topic",
    "partition",
    "current_offset",
    "end_offset",
    "lag",
    "member_id",
    "host",
    "client_id",
)
_PRINTED = (
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
)


@pytest.fixture(scope="module")
def zoo(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zoo]:
    with ExitStack() as stack:
        yield Zoo(tmp_path_factory.mktemp("zoo"), cache, stack)


def test_every_group_is_listed_and_described_as_kafkas_own_tools_do(zoo: Zoo) -> None:
    found = zoo.settle()

    same_list(zoo.bootstrap, zoo.tools)
    states = {name: group["state"] for name, group in listed(zoo.bootstrap).items()}
    for tool in (CONSUMER_GROUPS, SHARE_GROUPS, STREAMS_GROUPS):
        for row in rows(zoo.tools.run(tool, "--list", "--state")):
            assert states[row["GROUP"]] == row["STATE"]
    same_consumer_groups(found, zoo.tools, ["classic", "consumer", "offsets"])
    for tool, name in ((SHARE_GROUPS, "share"), (STREAMS_GROUPS, "streams")):
        describe = ("--describe", "--group", name, "--verbose")
        (row,) = rows(zoo.tools.run(tool, *describe, "--state"))
        same_state(found[name], row)
        (got,) = rows(zoo.tools.run(tool, *describe, "--members"))
        (member,) = found[name]["members"]
        assert got["CLIENT-ID"] == member["client_id"]
        assert got["MEMBER-EPOCH"] == str(member["epoch"])
        if name == "share":
            assert (got["CONSUMER-ID"], got["HOST"]) == (member["member_id"], member["host"])
            assert got["ASSIGNMENT"] == spelled(member["owned"])
        else:
            assert (got["MEMBER"], got["PROCESS"]) == (member["member_id"], member["process_id"])
            assert got["MEMBER-PROTOCOL"] == member["protocol"]
            assert got["TOPOLOGY-EPOCH"] == str(member["topology_epoch"])
            assert got["ASSIGNMENTS"] == "ACTIVE: 0:[0,1,2,3]; TARGET-ACTIVE: 0:[0,1,2,3];"
            assert member["owned"]["active"] == member["target"]["active"] == {"0": [0, 1, 2, 3]}


def test_offsets_and_lag_are_those_of_kafkas_own_tools(zoo: Zoo) -> None:
    zoo.settle()
    zoo.admin.do("produce orders 40")
    zoo.admin.do("produce views 20")

    def look() -> dict[str, list[tuple[str, ...]]]:
        found = groups_of(ours(zoo.bootstrap, "describe", *TYPED, "--offsets", "--output", "json"))
        return {
            name: [tuple(shown(each[key]) for key in _OFFSETS) for each in group["offsets"]]
            for name, group in found.items()
        }

    def printed() -> dict[str, list[tuple[str, ...]]]:
        chosen = [part for name in TYPED for part in ("--group", name)]
        found = rows(zoo.tools.run(CONSUMER_GROUPS, "--describe", *chosen, "--offsets"))
        return {
            name: sorted(
                tuple(row[key] for key in _PRINTED) for row in found if row["GROUP"] == name
            )
            for name in TYPED
        }

    def is_caught_up() -> bool:
        return all(row[4] == "0" for name in ("classic", "consumer") for row in look()[name])

    assert until(is_caught_up, True)
    assert {name: sorted(found) for name, found in look().items()} == printed()
    assert sum(int(row[4]) for row in look()["offsets"]) == 40
    document = groups_of(
        ours(zoo.bootstrap, "describe", "share", "streams", "--offsets", "--output", "json")
    )
    share = rows(zoo.tools.run(SHARE_GROUPS, "--describe", "--group", "share", "--offsets"))
    assert [
        (each["topic"], str(each["partition"]), shown(each["current_offset"]))
        for each in document["share"]["offsets"]
    ] == sorted((row["TOPIC"], row["PARTITION"], row["START-OFFSET"]) for row in share)
    streams = rows(zoo.tools.run(STREAMS_GROUPS, "--describe", "--group", "streams", "--offsets"))
    assert [
        (each["topic"], str(each["partition"]), shown(each["lag"]))
        for each in document["streams"]["offsets"]
    ] == sorted((row["TOPIC"], row["PARTITION"], row["OFFSET-LAG"]) for row in streams)
    assert [each["task"] for each in document["streams"]["offsets"]] == [
        "0_0",
        "0_1",
        "0_2",
        "0_3",
    ]


def test_what_a_group_is_not_is_said(zoo: Zoo) -> None:
    zoo.settle()

    wrong = ours(zoo.bootstrap, "describe", "share", "connect", "--group-type", "consumer")
    unknown = ours(zoo.bootstrap, "describe", "nope")

    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.splitlines() == [
        "Error: group 'share' (Share, Stable): is a share group, not a consumer group",
        (
            "Error: group 'connect' (Classic, Stable): "
            "is a classic connect group, not a consumer group"
        ),
    ]
    assert unknown.stderr == "Error: group 'nope': GROUP_ID_NOT_FOUND: Group nope not found.\n"


def test_a_killed_broker_is_named_and_the_others_list_every_group(zoo: Zoo) -> None:
    zoo.settle()
    broker = zoo.cluster.brokers[0]
    broker.kill()
    try:
        partial = ours(zoo.bootstrap, "list")
        assert partial.returncode == 1
        assert f"Warning: partial: broker 1 is missing: {broker.address}: " in partial.stderr

        assert until(lambda: set(listed(zoo.bootstrap)), set(Zoo.ALL)) == set(Zoo.ALL)

        same_list(zoo.bootstrap, zoo.tools)
        describe = ours(zoo.bootstrap, "describe", *Zoo.ALL)
        assert (describe.returncode, describe.stderr) == (0, "")
    finally:
        broker.restart()


def test_an_agent_exports_what_coordinators_tell(zoo: Zoo, tmp_path: Path) -> None:
    found = zoo.settle()
    source = _SOURCE.format(bootstrap=json.dumps(zoo.bootstrap.split(",")))
    with (
        Observer(tmp_path / "none", tmp_path / "agent", source, "standalone") as agent,
        Clients(zoo.bootstrap, tmp_path / "clients", zoo.cache) as clients,
    ):
        agent.wait_ready()
        for name, group in found.items():
            labels = {"group": name, "group_type": group["type"].lower(), "kafka_cluster": "zoo"}
            members = float(len(group["members"]))
            assert agent.gauge("kafka_group_members", members, **labels) == members
            assert agent.gauge("kafka_group_state", 1.0, **labels, state=group["state"]) == 1.0
            assert agent.gauge("kafka_group_generation", group["epoch"], **labels) == group["epoch"]

        # of the lab's broker, and by default
        for name, value in (("consumer", "6000"), ("share", "45000"), ("streams", "45000")):
            (first, *_) = agent.poll(partial(agent.changes, name), bool)
            assert first == (f"{name}.session.timeout.ms", None, value)

        joining = clients.consumer("3.9.1", "brief", "brief", ["orders"])
        joining.wait_for("assigned", DEADLINE_S)
        assert agent.gauge("kafka_group_members", 1.0, group="brief") == 1.0
        joining.close()

        assert agent.gauge("kafka_group_members", 0.0, group="brief") == 0.0
        assert agent.gauge("kafka_group_membership_changes_total", 1.0, group="brief") == 1.0
        zoo.tools.run(CONSUMER_GROUPS, "--delete", "--group", "brief")
        assert agent.gauge("kafka_group_members", None, group="brief") is None
