"""Brokers whose responses are hostile in some fields: every command ends with a value or an error.

`Mutated` changes fields, counts and bytes of real responses. The seeds are fixed.
"""

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress

import pytest
from click.testing import CliRunner

from agent.cli import main
from agent.inspection import client, poller
from agent.inspection.connection.admin_requests import Api
from agent.inspection.connection.broker_pool import BrokerPool
from agent.inspection.connection.security import Security
from agent.sources.inspection.config import GroupsSourceConfig
from agent.sources.inspection.source import GroupsSource
from metrics.model.sample import decode, encode
from tests.agent.inspection.mutated import Mutated
from tests.agent.inspection.simulated import HOST, KAFKA_28, KAFKA_43, Group
from tests.agent.inspection.simulated_messages import KAFKA_21, Versions

_RATES = (0.005, 0.02, 0.06, 0.3)
_WORKER = (b"\0\1\0\5http:\0\0\0\0\0\0\0\0", b"\0\1\0\0")
_REGISTRY = (
    b'{"host":"h","port":1,"master_eligibility":true,"version":1}',
    b'{"error":0,"master":"sr-1","master_identity":{"host":"h","port":1}}',
)
_COMMANDS = (
    ("list",),
    ("list", "--consumer", "--state", "Stable"),
    ("describe", "--all", "--members", "--verbose"),
    ("describe", "--all", "--offsets", "--time-lag", "--members", "--verbose"),
    ("describe", "clicks", "orders", "queue", "views", "--offsets"),
    ("describe", "orders", "--group-type", "consumer"),
)
_STATES = {
    ("clicks", "consumer", "Stable", 2),
    ("connect-s3", "classic", "Stable", 1),
    ("offsets", "classic", "Empty", 0),
    ("orders", "classic", "Stable", 2),
    ("queue", "share", "Stable", 1),
    ("registry", "classic", "Stable", 1),
    ("views", "streams", "Stable", 1),
}


def groups() -> dict[str, Group]:
    topology = {"subtopology_id": "0", "source_topics": ["t"]}
    owned = {"c1-a": {"t": [0]}, "c2-b": {"t": [1]}}
    committed = {("t", 0): 5, ("t", 1): 1}
    return {
        "clicks": Group(type="consumer", members=owned, committed=committed),
        "connect-s3": Group(protocol="connect", members={"w-1": {}}, content={"w-1": _WORKER}),
        "offsets": Group(protocol="", state="Empty", committed=committed),
        "orders": Group(members=owned, committed=committed, user_data=b"hello"),
        "queue": Group(type="share", members={"c-a": {"t": [0]}}, lags={("t", 0): 3}),
        "registry": Group(protocol="sr", members={"sr-1": {}}, content={"sr-1": _REGISTRY}),
        "views": Group(
            type="streams", node_id=2, members={"s-a": {"0": [0]}}, subtopologies=[topology]
        ),
    }


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mutated]:
    for module in (client, poller):
        monkeypatch.setattr(module, "RETRY_TIMEOUT_S", 0.01)
    ends = defaultdict[tuple[str, int], int](lambda: 7)
    ends[("t", 0)] = ends[("t", 1)] = 9
    times = {("t", 0): {offset: 1000 * offset for offset in range(9)}}
    with Mutated(groups(), nodes=2, ends=ends, times=times) as mutated:
        yield mutated


def other_versions(dice: random.Random) -> Versions:
    """Return the versions of a broker, at times with one that does not overlap ours."""
    versions = dict(dice.choice((KAFKA_43, KAFKA_28, KAFKA_21)))
    if dice.random() < 0.2:
        api = dice.choice([each for each in versions if each is not Api.API_VERSIONS])
        versions[api] = dice.choice(((0, 0), (99, 120), (-5, -1), (3, 1)))
    return versions


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(4))
def test_every_command_ends_with_a_document_or_an_error(cluster: Mutated, seed: int) -> None:
    cluster.dice = dice = random.Random(seed)
    for _ in range(40):
        cluster.rate, cluster.versions = dice.choice(_RATES), other_versions(dice)
        arguments = [*dice.choice(_COMMANDS), "--output", dice.choice(("json", "table", "yaml"))]
        command = ["groups", *arguments, "--bootstrap-server", cluster.bootstrap]
        result = CliRunner().invoke(main, [*command, "--timeout", "5"])

        assert isinstance(result.exception, SystemExit | None), result.exc_info
        assert result.exit_code in {0, 1}
        assert result.exit_code == 0 or result.stderr.strip()
        if "json" in arguments and result.stdout:
            assert json.loads(result.stdout).keys() >= {"groups", "errors"}


@pytest.mark.parametrize("seed", range(3))
def test_the_source_goes_on_and_shows_the_groups_again(
    cluster: Mutated, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GroupsSource, "_pause_s", lambda *_: 0.001)

    def open_pool() -> BrokerPool:
        addresses = [(HOST, port) for port in cluster.ports.values()]
        return BrokerPool(addresses, Security, timeout_s=5.0)

    config = GroupsSourceConfig(interval_s=1.0, lag=True, lag_by_partition=True)
    source = GroupsSource(config, cluster="", brokers=open_pool, is_watched=lambda _: True)

    def states() -> set[tuple[str, str, str, int | None]]:
        return {(e.group, e.group_type, e.state, e.members) for e in source.group_states()}

    async def play() -> None:
        running = asyncio.create_task(source.run(lambda *_: None, lambda *_: None))
        cluster.dice = random.Random(seed)
        try:
            for cluster.rate in (*_RATES, 0.0):
                asked = cluster.asked.total()
                while cluster.asked.total() < asked + 150 and not running.done():
                    await asyncio.sleep(0.001)
                    found = source.findings()
                    assert [decode(encode(each)) for each in found] == found
            while not running.done() and not (source.health.up and states() == _STATES):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            assert not running.done()
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    asyncio.run(asyncio.wait_for(play(), 60.0))
