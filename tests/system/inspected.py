"""Groups as `groups` shows them, and the same by Kafka's own tools."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.system.kafka_tools import KafkaTools

DEADLINE_S = 120.0
TOOLS = "org.apache.kafka.tools"
GROUPS = f"{TOOLS}.GroupsCommand"
CONSUMER_GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
SHARE_GROUPS = f"{TOOLS}.consumer.group.ShareGroupCommand"
STREAMS_GROUPS = f"{TOOLS}.streams.StreamsGroupCommand"
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
    """Return the result of ``look`` when it is as wanted, or at the deadline."""
    end_s = time.monotonic() + DEADLINE_S
    while (seen := look()) != wanted and time.monotonic() < end_s:
        time.sleep(1.5)  # a look is a process
    return seen


def spelled(assigned: dict[str, Any] | None) -> str:
    """Return partitions as kafka-consumer-groups.sh writes them."""
    topics = sorted((assigned or {}).items())
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics)


def partitions(group: Group) -> int:
    """Return how many partitions, or active tasks, the members own."""
    owned = [member["owned"] or {} for member in group["members"]]
    return sum(len(each) for topics in owned for each in topics.get("active", topics).values())


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
    """Compare with a row of --describe --state --verbose, for a group of any type."""
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
