"""Real Python consumers report themselves to a real agent, by one call each."""

import asyncio
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import aiokafka
import pytest
from confluent_kafka import Consumer

from agent.lab.lab import Lab
from tests.deploy.test_kafka_rebalance_events import load
from tests.system.observer import Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(300)]

_WITHIN_S = 30.0
_TOPIC = "reported"
Play = Callable[[ModuleType, Lab, str], None]


@pytest.fixture(scope="module")
def agent(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observer]:
    folder = tmp_path_factory.mktemp("events")
    lab.admin.do(f"create-topic {_TOPIC} 2")
    with Observer(folder / "none", folder / "agent", "{type: http}") as agent:
        agent.wait_ready()
        yield agent


def _until(enough: Callable[[], object], step: Callable[[], object]) -> None:
    end_s = time.monotonic() + _WITHIN_S
    while not enough():
        assert time.monotonic() < end_s
        step()


def _confluent(events: ModuleType, lab: Lab, url: str) -> None:
    settings = {"bootstrap.servers": lab.cluster.bootstrap, "group.id": "by-confluent"}
    named = {"group": "by-confluent", "client_id": "confluent"}
    consumer = events.confluent(Consumer(settings | {"client.id": "confluent"}), **named, url=url)
    consumer.subscribe([_TOPIC])
    _until(consumer.assignment, lambda: consumer.poll(0.1))
    consumer.close()


def _kafka_python(events: ModuleType, lab: Lab, url: str) -> None:
    kafka = importlib.import_module("kafka")  # it warns of itself, which at the top is an error
    seen: list[str] = []
    base = kafka.ConsumerRebalanceListener

    class Listener(base):  # type: ignore[misc, valid-type]
        def on_partitions_assigned(self, assigned: object) -> None:
            del assigned
            seen.append("assigned")

        def on_partitions_revoked(self, revoked: object) -> None:
            del revoked
            seen.append("revoked")

    name = "kafka_python"
    plain = kafka.KafkaConsumer(
        bootstrap_servers=lab.cluster.bootstrap, group_id=f"by-{name}", client_id=name
    )
    consumer = events.kafka_python(plain, url=url)
    consumer.subscribe([_TOPIC], listener=Listener())
    _until(consumer.assignment, lambda: consumer.poll(100))
    consumer.close()
    assert "assigned" in seen


def _aiokafka(events: ModuleType, lab: Lab, url: str) -> None:
    async def play() -> None:
        plain = aiokafka.AIOKafkaConsumer(
            _TOPIC,
            bootstrap_servers=lab.cluster.bootstrap,
            group_id="by-aiokafka",
            client_id="aiokafka",
        )
        consumer = events.aiokafka(plain, url=url)
        await consumer.start()
        while not consumer.assignment():
            await consumer.getmany(timeout_ms=100)
        await consumer.stop()

    asyncio.run(asyncio.wait_for(play(), _WITHIN_S))


@pytest.mark.filterwarnings("ignore::DeprecationWarning:importlib")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")
@pytest.mark.parametrize("play", [_confluent, _kafka_python, _aiokafka])
def test_a_consumer_tells_its_end_and_who_it_is(agent: Observer, lab: Lab, play: Play) -> None:
    events, name = load(), play.__name__.removeprefix("_")

    play(events, lab, agent.url)

    reporter = events.reporter(agent.url)
    assert reporter.flush(_WITHIN_S)
    assert (reporter.dropped, reporter.refused, reporter.last_error) == (0, 0, None)
    assert agent.codes(name, [6, 0]) == [6, 0]
    assert agent.gauge("kafka_group_rebalance_status", 6.0, group=f"by-{name}") == 6.0
    members = {row["member_id"] for row in agent._rows() if row["client_id"] == name}
    assert any(str(member).startswith(name) for member in members), members


def test_the_helper_is_the_one_that_is_shipped() -> None:
    assert Path(str(load().__file__)).parts[-3:-1] == ("deploy", "kafka_rebalance_events")
    assert "kafka_rebalance_events" not in sys.modules
