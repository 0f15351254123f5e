"""Groups at real brokers of older versions, as we and as Kafka's own tools show them."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from agent.lab.clients import Clients
from tests.system.inspected import (
    CONSUMER_GROUPS,
    DEADLINE_S,
    described,
    groups_of,
    listed,
    ours,
    partitions,
    same_consumer_groups,
    same_list,
    until,
)
from tests.system.kafka_tools import KafkaTools
from tests.system.older_brokers import kafka_21, kafka_28, kafka_39

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900)]


@pytest.mark.field  # the broker of 2.1 below is in each run
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
        # the first to ask for a coordinator waits until there is one: 5 s by itself
        patient = ("--timeout", "60000")
        reset = (*patient, "--reset-offsets", "--to-earliest", "--execute", "--topic", "orders")
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
            (
                "Error: group 'classic' (Classic, Stable): "
                "is a classic consumer group, not a consumer group"
            ),
            "Error: group 'nope': GROUP_ID_NOT_FOUND: Group nope not found.",
        ]


def test_a_broker_of_2_1_is_listed_and_described_with_offsets(cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    with (
        kafka_21(folder, cache) as bootstrap,
        Clients(bootstrap, tmp_path / "clients", cache) as clients,
    ):
        # an admin of today needs 2.4 to create a topic; the broker creates it for the consumer
        clients.consumer("2.8.2", "classic-1", "classic", ["orders"])

        def look() -> list[tuple[str, int]]:
            found = described(bootstrap, "classic").values()
            return [(group["state"], partitions(group)) for group in found]

        assert until(look, [("Stable", 4)]) == [("Stable", 4)]
        assert set(listed(bootstrap)) == {"classic"}
        offsets = ours(bootstrap, "describe", "classic", "--offsets", "--output", "json")
        assert (offsets.returncode, offsets.stderr) == (0, "")
        rows = groups_of(offsets)["classic"]["offsets"]
        assert [(each["partition"], each["end_offset"]) for each in rows] == [
            (number, 0) for number in range(4)
        ]
