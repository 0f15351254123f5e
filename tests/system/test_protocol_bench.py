"""The agent's data while a group's coordinator or leader dies, at each step of the protocol."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.system.inspected import CONSUMER_GROUPS, rows, until
from tests.system.protocol_bench import Bench, Scene, Step

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900)]

MEMBER_INFO = "kafka_consumer_member_info"
_CLIENTS = "org.apache.kafka.clients.consumer"
_STATE = {
    Step.JOINING: "PreparingRebalance",
    Step.ASSIGNING: "CompletingRebalance",
    Step.SYNCED: "CompletingRebalance",
    Step.HEARTBEATS: "Stable",
}


@pytest.fixture(scope="module")
def bench(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(tmp_path_factory.mktemp("bench"), cache, stack)


def states(scene: Scene) -> list[str | None]:
    """Return the coordinator's states that the agent showed, each change once."""
    found = [look.state for _, look in scene.timeline.changes()]
    return [state for at, state in enumerate(found) if at == 0 or state != found[at - 1]]


def raised(scene: Scene) -> set[str]:
    """Return the members that the agent saw in a rebalance; some are shorter than a second."""
    return {client for client, codes in seen(scene).items() if any(codes)}


def seen(scene: Scene) -> dict[str, list[int]]:
    """Return the codes of each member since the scene began to look."""
    found = scene.bench.agent.codes_of_group(scene.group)
    return {client: codes[len(scene.before.get(client, [])) :] for client, codes in found.items()}


@pytest.mark.field
@pytest.mark.parametrize("step", Step)
def test_a_killed_coordinator_is_shown_until_its_group_is_stable_again(
    bench: Bench, step: Step
) -> None:
    with bench.group(f"coordinator-{step.name.lower()}") as scene:
        scene.reach(step)
        coordinator = scene.coordinator()
        coordinator.kill()
        scene.release()
        try:
            scene.settled(["a", "b", "c"])
        finally:
            coordinator.restart()

        assert _STATE[step] in states(scene)
        assert states(scene)[-1] == "Stable"
        if step is not Step.HEARTBEATS:
            assert raised(scene)


@pytest.mark.field
@pytest.mark.parametrize("step", Step)
def test_a_killed_leader_is_shown_until_the_others_are_stable_again(
    bench: Bench, step: Step
) -> None:
    with bench.group(f"leader-{step.name.lower()}") as scene:
        leader = scene.leader()
        others = [name for name in scene.members if name != leader]
        scene.reach(step)
        scene.members[leader].kill()
        scene.release()
        scene.settled(others)

        assert _STATE[step] in states(scene)
        assert states(scene)[-1] == "Stable"
        assert raised(scene) >= {f"{scene.group}-{name}" for name in others}


@pytest.mark.field
def test_an_incident_shows_how_the_lag_grew_and_that_the_group_has_caught_up(bench: Bench) -> None:
    with bench.group("lag") as scene:
        leader = scene.leader()
        victim = next(name for name in scene.members if name != leader)
        bench.admin.do("produce orders 60", 60.0)
        assert bench.agent.gauge("kafka_group_lag", 0.0, group="lag") == 0.0
        scene.members[victim].kill()
        bench.admin.do("produce orders 60", 60.0)
        scene.settled([name for name in scene.members if name != victim])

        def costs() -> list[dict[str, Any]]:
            return [each["cost"] for each in bench.agent.incidents("lag")]

        assert until(lambda: any(each["caught_up_at"] for each in costs()), wanted=True), costs()
        (cost,) = (each for each in costs() if each["caught_up_at"])
        assert cost["lag_before"] == 0
        assert cost["lag"] > 0


@pytest.mark.field
def test_a_rolling_upgrade_of_the_strategy_ends_with_a_record(bench: Bench) -> None:
    with bench.group("upgrade") as scene:
        both = f"{_CLIENTS}.CooperativeStickyAssignor"
        for name in ("a", "b", "c"):
            scene.members[name].close()
            properties = scene.assignor(name)
            properties["partition.assignment.strategy"] += f",{both}"
            scene.members[name] = scene.start(name, ["orders"], properties)
            scene.settle(3)
        assert bench.agent.changes("upgrade") == []
        for name in ("a", "b", "c"):
            scene.members[name].close()
            strategy = {"partition.assignment.strategy": both}
            scene.members[name] = scene.start(name, ["orders"], strategy)
            scene.settle(3)
        scene.settled(["a", "b", "c"])

        wanted = [("assignor", "bench", "cooperative-sticky")]
        assert until(lambda: bench.agent.changes("upgrade"), wanted) == wanted


@pytest.mark.field
def test_a_subscription_by_pattern_is_shown_when_it_matches_more(bench: Bench) -> None:
    with bench.group("pattern") as scene:
        for name in ("a", "b", "c"):
            scene.members[name].close()
            scene.members[name] = scene.start(name, ["re:(orders|late-.*)"], scene.assignor(name))
        scene.settled(["a", "b", "c"])
        bench.admin.do("create-topic late-1 3", 60.0)

        wanted = ("subscription", "orders", "late-1,orders")
        assert until(lambda: wanted in bench.agent.changes("pattern"), wanted=True)
        scene.settled(["a", "b", "c"])
        codes = {code for each in seen(scene).values() for code in each}
        assert codes & {7, 8}


@pytest.mark.field
def test_a_refused_join_is_recorded_and_the_group_stays_as_kafkas_tools_show_it(
    bench: Bench,
) -> None:
    with bench.group("refused") as scene:
        ranged = {"partition.assignment.strategy": f"{_CLIENTS}.RangeAssignor"}
        scene.members["d"] = scene.start("d", ["orders"], ranged)

        assert until(lambda: bool(bench.agent.failed_joins("refused")), wanted=True)
        assert {client for client, _ in bench.agent.failed_joins("refused")} == {"refused-d"}
        printed = bench.tools.run(CONSUMER_GROUPS, "--describe", "--group", "refused", "--members")
        members = {row["CLIENT-ID"] for row in rows(printed)}
        assert members == {f"refused-{name}" for name in ("a", "b", "c")}
        assert scene.settled(["a", "b", "c"]).members == len(members)


@pytest.mark.field
def test_all_sources_have_the_label_that_kafkas_tool_prints(bench: Bench) -> None:
    with bench.group("label"):
        wanted = {bench.tools.cluster_id()}
        series = ("kafka_group_state", "kafka_group_rebalance_status{", MEMBER_INFO)
        assert until(lambda: bench.agent.clusters(*series), wanted) == wanted


def test_a_leader_that_cannot_assign_fails_and_the_next_one_goes_on(
    cache: Path, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        bench = Bench(tmp_path, cache, stack, brokers=1)
        with bench.group("failure") as scene:
            leader = scene.leader()
            others = [name for name in scene.members if name != leader]
            scene.fail(leader)
            scene.members[leader].send("enforce bench")
            scene.settled(others)

            assert "CompletingRebalance" in states(scene)
            assert raised(scene) >= {f"failure-{name}" for name in others}
