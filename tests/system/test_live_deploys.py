"""Deploys of real consumers, as people do them, and the agent's view of each after its end."""

import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.client.api_client import ask
from agent.lab.lab import Lab
from agent.processes.ports import HOST, free_port
from tests.system.connect_worker import connect_worker, run_connector
from tests.system.live_scene import (
    PARTITIONS,
    LiveGroup,
    MemberProcess,
    live_group,
    pass_by,
    shown_after,
    until,
)
from tests.system.observer import Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.field, pytest.mark.timeout(600)]

PROCESS_S = 4.0
"""No process lives for a shorter time."""


def start_all(group: LiveGroup, *names: str, **settings: str) -> dict[str, MemberProcess]:
    members = {name: group.start(name, **settings) for name in names}
    pass_by(group.settle(members, PARTITIONS) + PROCESS_S)
    return members


def replace_one(
    group: LiveGroup, members: dict[str, MemberProcess], old: str, new: str, **settings: str
) -> float:
    """Stop one member, start its successor, and return when all read."""
    members.pop(old).close()
    members[new] = group.start(new, **settings)
    return group.settle(members, PARTITIONS)


def test_three_replicas_of_one_client_id_are_restarted(lab: Lab, tmp_path: Path) -> None:
    """Client id and host are the same: member ids alone tell them apart."""
    with live_group(lab, tmp_path) as (group, url):
        members = start_all(group, "r1", "r2", "r3", client_id="app")
        for name in ("r1", "r2", "r3"):
            whole = replace_one(group, members, name, f"{name}-new", client_id="app")
            pass_by(whole + PROCESS_S)
        assert shown_after(url, group, whole) == ("rollout", ["app"])
        (rollout, *_) = ask(url, "incidents", group=group.group)
        assert len({each["member_id"] for each in rollout["members"]}) == 3
        (answer,) = ask(url, "explain", group=group.group)
        assert "crash loop" not in answer["answer"]


def test_rollout_that_starts_each_successor_first(lab: Lab, tmp_path: Path) -> None:
    with live_group(lab, tmp_path) as (group, url):
        members = start_all(group, "p1", "p2")
        for _ in range(2):  # who is newer than SURGE_S is no predecessor
            pass_by(time.time() + 65.0)
        for name in ("p1", "p2"):
            successor = f"{name}-new"
            members[successor] = group.start(successor, client_id=name)
            pass_by(group.settle(members, PARTITIONS) + PROCESS_S)
            members.pop(name).close()
            whole = group.settle(members, PARTITIONS)
            pass_by(whole + PROCESS_S)
        assert shown_after(url, group, whole) == ("rollout", ["p1", "p2"])


def test_all_stop_and_all_start_again(lab: Lab, tmp_path: Path) -> None:
    with live_group(lab, tmp_path) as (group, url):
        members = start_all(group, "m1", "m2", "m3")
        for member in members.values():
            member.close()
        again = {f"{name}-new": group.start(f"{name}-new", client_id=name) for name in members}
        whole = group.settle(again, PARTITIONS)
        assert shown_after(url, group, whole) == ("rollout", ["m1", "m2", "m3"])


def test_eager_group_becomes_cooperative(lab: Lab, tmp_path: Path) -> None:
    """Both kinds of assignor do not mix, so all stop before all start."""
    with live_group(lab, tmp_path) as (group, url):
        members = start_all(group, "m1", "m2", partition_assignment_strategy="range")
        for member in members.values():
            member.close()
        cooperative = {"partition_assignment_strategy": "cooperative-sticky"}
        again = {
            f"{name}-new": group.start(f"{name}-new", client_id=name, **cooperative)
            for name in members
        }
        whole = group.settle(again, PARTITIONS)
        assert shown_after(url, group, whole) == ("rollout", ["m1", "m2"])
        (rollout, *_) = ask(url, "incidents", group=group.group)
        assert rollout["detail"] == {
            "field": "assignor",
            "before": "range",
            "after": "cooperative-sticky",
        }


def test_connector_is_added_to_a_connect_cluster(lab: Lab, tmp_path: Path) -> None:
    logs, bootstrap = tmp_path / "clients", f"{HOST}:{free_port()}"
    proxy = f'{{type: proxy, listen: "{bootstrap}", upstream: ["{lab.cluster.bootstrap}"]}}'
    sources = f'{proxy}\n  - {{type: logs, paths: ["{logs}/*.log"]}}'
    rest_port = free_port()
    with Observer(logs, tmp_path / "agent", sources, "standalone") as agent, ExitStack() as stack:
        agent.wait_ready()
        lab.admin.do("create-topic sink 4")
        worker = connect_worker(
            "w1", "connect-live", bootstrap, logs, lab.cache, rest_port=rest_port
        )
        stack.callback(worker.stop)
        until(lambda: agent_members(agent.url) or None, "a member of the Connect cluster")
        run_connector(rest_port, "sink", 2)

        def kinds() -> set[str] | None:
            found = {each["kind"] for each in ask(agent.url, "incidents", group="connect-live")}
            return found if "task_configuration" in found else None

        assert "crash_loop" not in until(kinds, "an incident of the added connector")


def agent_members(url: str) -> list[dict[str, object]]:
    """Return the members of the Connect cluster that have their assignment."""
    rows = ask(url, "members", group="connect-live")
    return [row for row in rows if row["status"] == 0]
