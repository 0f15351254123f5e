"""Groups of every kind at real brokers, as we and as Kafka's own tools show them."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent.lab.broker import Cluster
from agent.lab.child import Child
from agent.lab.clients import Clients
from tests.system.connect_worker import connect_worker
from tests.system.kafka_tools import KafkaTools, command
from tests.system.observer import Observer
from tests.system.older_brokers import kafka_28, kafka_39

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900)]

DEADLINE_S = 120.0
TOOLS = "org.apache.kafka.tools"
GROUPS = f"{TOOLS}.GroupsCommand"
CONSUMER_GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
SHARE_GROUPS = f"{TOOLS}.consumer.group.ShareGroupCommand"
STREAMS_GROUPS = f"{TOOLS}.streams.StreamsGroupCommand"
_SOURCE = """\
{{type: groups, interval: 1s}}
role: standalone
cluster: {{name: zoo, bootstrap_servers: {bootstrap}}}
"""
Row = dict[str, str]
Group = dict[str, Any]


def ours(bootstrap: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `groups` as a user does."""
    return subprocess.run(
        [
            *(sys.executable, "-P", "-m", "agent", "groups", *arguments),
            *("--bootstrap-server", bootstrap),
        ],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def groups_of(done: subprocess.CompletedProcess[str]) -> dict[str, Group]:
    assert done.stdout, done.stderr
    return {group["group"]: group for group in json.loads(done.stdout)["groups"]}


def listed(bootstrap: str) -> dict[str, Group]:
    return groups_of(ours(bootstrap, "list", "--output", "json"))


def described(bootstrap: str, *names: str) -> dict[str, Group]:
    return groups_of(ours(bootstrap, "describe", *names, "--output", "json"))


def rows(printed: str, key: str = "GROUP") -> list[Row]:
    """Return the rows of a tool's tables, by the places of their headers."""
    found, columns = list[Row](), list[tuple[str, int, int]]()
    for line in printed.splitlines():
        if line.startswith(f"{key} "):
            starts = [match.start() for match in re.finditer(r"\S+( \(ID\))?", line)]
            ends = [*starts[1:], 10_000]
            columns = [(line[a:b].strip(), a, b) for a, b in zip(starts, ends, strict=True)]
        elif columns and line.strip():
            found.append({name: line[a:b].strip() for name, a, b in columns})
    return found


def until(look: Callable[[], Any], wanted: object) -> Any:
    """Return what is seen, once it is as wanted or at the deadline."""
    end_s = time.monotonic() + DEADLINE_S
    while (seen := look()) != wanted and time.monotonic() < end_s:
        time.sleep(0.5)
    return seen


def spelled(assigned: dict[str, Any] | None) -> str:
    """Return partitions as kafka-consumer-groups.sh writes them."""
    topics = sorted((assigned or {}).items())
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics)


def partitions(group: Group) -> int:
    """Return how many partitions, or active tasks, the members own."""
    owned = [member["owned"] or {} for member in group["members"]]
    return sum(len(each) for topics in owned for each in topics.get("active", topics).values())


class Zoo:
    """A 3-broker cluster with a group of every kind at once."""

    ALL = ("classic", "connect", "consumer", "offsets", "share", "streams")

    def __init__(self, folder: Path, cache: Path, stack: ExitStack) -> None:
        self.cluster = stack.enter_context(Cluster(folder / "lab", cache, brokers=3))
        self.bootstrap, self.cache = self.cluster.bootstrap, cache
        clients = stack.enter_context(Clients(self.bootstrap, folder / "clients", cache))
        self.tools = KafkaTools(self.bootstrap, folder / "tools", cache)
        admin = clients.admin()
        for topic in ("orders", "views"):
            admin.do(f"create-topic {topic} 4", 60.0)
        reset = ("--reset-offsets", "--to-earliest", "--execute", "--topic", "orders")
        self.tools.run(CONSUMER_GROUPS, *reset, "--group", "offsets")
        for number in (1, 2):
            named = {"group.instance.id": "static-1"} if number == 1 else {}
            clients.consumer("3.9.1", f"classic-{number}", "classic", ["orders"], named)
            named = {"group.protocol": "consumer", "client.rack": f"rack-{number}"}
            clients.consumer("4.3.0", f"consumer-{number}", "consumer", ["orders", "views"], named)
        clients.streams("4.3.0", "streams-1", "streams", "views", {"group.protocol": "streams"})
        stack.enter_context(
            connect_worker("connect-1", "connect", self.bootstrap, folder / "clients", cache)
        )
        stack.enter_context(self._share_consumer(folder, cache))

    def settle(self) -> dict[str, Group]:
        """Wait until every group stands still with its members and partitions; describe them.

        A share group is stable before its partitions are ready, and its epoch rises when they are.
        """
        stable = {
            "classic": ("Stable", 2, 4),
            "connect": ("Stable", 1, 0),
            "consumer": ("Stable", 2, 8),
            "offsets": ("Empty", 0, 0),
            "share": ("Stable", 1, 4),
            "streams": ("Stable", 1, 4),
        }

        def look() -> dict[str, tuple[str, int, int]]:
            found = described(self.bootstrap, *self.ALL)
            return {n: (g["state"], len(g["members"]), partitions(g)) for n, g in found.items()}

        assert until(look, stable) == stable
        return described(self.bootstrap, *self.ALL)

    def _share_consumer(self, folder: Path, cache: Path) -> Child:
        main = f"{TOOLS}.consumer.ConsoleShareConsumer"
        # fmt: off
        return Child(
            "share consumer",
            [
                *command(main, folder / "share.log", cache),
                "--bootstrap-server", self.bootstrap, "--topic", "orders", "--group", "share",
            ],
            folder / "share.out",
        )
        # fmt: on


@pytest.fixture(scope="module")
def zoo(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zoo]:
    with ExitStack() as stack:
        yield Zoo(tmp_path_factory.mktemp("zoo"), cache, stack)


def shown(value: object) -> str:
    return "-" if value is None else str(value)


def same_members(group: Group, printed: Sequence[Row]) -> None:
    """Compare with kafka-consumer-groups.sh --describe --members --verbose."""
    assert {
        (
            member["member_id"],
            member["instance_id"] or "",
            member["host"],
            member["client_id"],
            str(sum(map(len, (member["owned"] or {}).values()))),
            shown(member["epoch"]),
            spelled(member["owned"]),
            spelled(member["target"]),
        )
        for member in group["members"]
    } == {
        (
            row["CONSUMER-ID"],
            row.get("GROUP-INSTANCE-ID", ""),
            row["HOST"],
            row["CLIENT-ID"],
            row["#PARTITIONS"],
            row["CURRENT-EPOCH"],
            row["CURRENT-ASSIGNMENT"].replace("-", ""),
            row["TARGET-ASSIGNMENT"].replace("-", ""),
        )
        for row in printed
    }


def same_state(group: Group, row: Row) -> None:
    """Compare with what --describe --state --verbose prints of any type."""
    node = group["coordinator"]
    wanted = {
        "COORDINATOR (ID)": f"{node['host']}:{node['port']} ({node['node_id']})",
        "ASSIGNMENT-STRATEGY": shown(group["assignor"]),
        "STATE": group["state"],
        "GROUP-EPOCH": shown(group["epoch"]),
        "TARGET-ASSIGNMENT-EPOCH": shown(group["target_epoch"]),
        "ASSIGNMENT-EPOCH": shown(group["target_epoch"]),
        "#MEMBERS": str(len(group["members"])),
    }
    found = {name: " ".join(value.split()) for name, value in row.items() if name != "GROUP"}
    assert found == {name: value for name, value in wanted.items() if name in row}


def same_consumer_groups(found: dict[str, Group], tools: KafkaTools, names: Sequence[str]) -> None:
    chosen = [part for name in names for part in ("--group", name)]
    states = rows(tools.run(CONSUMER_GROUPS, "--describe", *chosen, "--state", "--verbose"))
    assert {row["GROUP"] for row in states} == set(names)
    for row in states:
        same_state(found[row["GROUP"]], row)
    members = rows(tools.run(CONSUMER_GROUPS, "--describe", *chosen, "--members", "--verbose"))
    for name in names:
        same_members(found[name], [row for row in members if row["GROUP"] == name])


def same_list(bootstrap: str, tools: KafkaTools) -> None:
    assert sorted(
        (name, group["type"] or "", group["protocol"]) for name, group in listed(bootstrap).items()
    ) == sorted(
        (row["GROUP"], row["TYPE"], row["PROTOCOL"]) for row in rows(tools.run(GROUPS, "--list"))
    )


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
        (told,) = rows(zoo.tools.run(tool, *describe, "--members"))
        (member,) = found[name]["members"]
        assert told["CLIENT-ID"] == member["client_id"]
        assert told["MEMBER-EPOCH"] == str(member["epoch"])
        if name == "share":
            assert (told["CONSUMER-ID"], told["HOST"]) == (member["member_id"], member["host"])
            assert told["ASSIGNMENT"] == spelled(member["owned"])
        else:
            assert (told["MEMBER"], told["PROCESS"]) == (member["member_id"], member["process_id"])
            assert told["MEMBER-PROTOCOL"] == member["protocol"]
            assert told["TOPOLOGY-EPOCH"] == str(member["topology_epoch"])
            assert told["ASSIGNMENTS"] == "ACTIVE: 0:[0,1,2,3]; TARGET-ACTIVE: 0:[0,1,2,3];"
            assert member["owned"]["active"] == member["target"]["active"] == {"0": [0, 1, 2, 3]}


def test_what_a_group_is_not_is_said(zoo: Zoo) -> None:
    zoo.settle()

    wrong = ours(zoo.bootstrap, "describe", "share", "connect", "--group-type", "consumer")
    unknown = ours(zoo.bootstrap, "describe", "nope")

    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.splitlines() == [
        "Error: Group 'share' is not a consumer group.",
        "Error: Group 'connect' is not a consumer group.",
    ]
    assert unknown.stderr == "Error: GROUP_ID_NOT_FOUND: Group nope not found.\n"


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
        Observer(tmp_path / "none", tmp_path / "agent", source) as agent,
        Clients(zoo.bootstrap, tmp_path / "clients", zoo.cache) as clients,
    ):
        agent.wait_ready()
        for name, group in found.items():
            labels = {"group": name, "group_type": group["type"].lower(), "kafka_cluster": "zoo"}
            members = float(len(group["members"]))
            assert agent.gauge("kafka_group_members", members, **labels) == members
            assert agent.gauge("kafka_group_state", 1.0, **labels, state=group["state"]) == 1.0
            assert agent.gauge("kafka_group_generation", group["epoch"], **labels) == group["epoch"]

        joining = clients.consumer("3.9.1", "brief", "brief", ["orders"])
        joining.wait_for("assigned", DEADLINE_S)
        assert agent.gauge("kafka_group_members", 1.0, group="brief") == 1.0
        joining.close()

        assert agent.gauge("kafka_group_members", 0.0, group="brief") == 0.0
        assert agent.gauge("kafka_group_membership_changes_total", 1.0, group="brief") == 1.0
        zoo.tools.run(CONSUMER_GROUPS, "--delete", "--group", "brief")
        assert agent.gauge("kafka_group_members", None, group="brief") is None


@pytest.mark.parametrize(("start", "types"), [(kafka_28, False), (kafka_39, True)])
def test_older_brokers_tell_the_same_as_to_kafkas_own_tools(
    start: Callable[[Path, Path], AbstractContextManager[str]],
    types: bool,
    cache: Path,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    with (
        start(folder, cache) as bootstrap,
        Clients(bootstrap, tmp_path / "clients", cache) as clients,
    ):
        tools = KafkaTools(bootstrap, tmp_path / "tools", cache)
        clients.admin().do("create-topic orders 4", DEADLINE_S)
        reset = ("--reset-offsets", "--to-earliest", "--execute", "--topic", "orders")
        tools.run(CONSUMER_GROUPS, *reset, "--group", "offsets")
        stable = {"offsets": ("Empty", 0), "classic": ("Stable", 2)}
        for number in (1, 2):
            clients.consumer("2.8.2", f"classic-{number}", "classic", ["orders"])
        if types:
            named = {"group.protocol": "consumer"}
            clients.consumer("3.9.1", "consumer-1", "consumer", ["orders"], named)
            stable["consumer"] = ("Stable", 1)

        def look() -> dict[str, tuple[str, int]]:
            found = described(bootstrap, *stable)
            return {name: (g["state"], len(g["members"])) for name, g in found.items()}

        assert until(look, stable) == stable
        same_list(bootstrap, tools)
        assert {name: g["state"] for name, g in listed(bootstrap).items()} == {
            name: state for name, (state, _) in stable.items()
        }
        same_consumer_groups(described(bootstrap, *stable), tools, list(stable))
        chosen = groups_of(ours(bootstrap, "list", "--group-type", "classic", "--output", "json"))
        assert set(chosen) == {"classic", "offsets"}
        wrong = ours(bootstrap, "describe", "classic", "nope", "--group-type", "consumer").stderr
        assert wrong.splitlines() == [
            "Error: Group 'classic' is not a consumer group.",
            "Error: GROUP_ID_NOT_FOUND: Group nope not found.",
        ]
