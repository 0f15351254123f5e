"""A real client's connection that the decoder has to give up: to the client, nothing happens."""

import time
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from agent.lab.lab import Lab
from agent.processes.ports import HOST, free_port
from agent.wire.codec.buffer import ELEMENT_LIMIT
from tests.system.observer import Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(300)]

RECORDS = 200
WITHIN_S = 60.0


class Seen(NamedTuple):
    """The observations of a client."""

    assigned: int
    revoked: int
    records: list[bytes]
    refused: object
    errors: list[str]


def _consume(bootstrap: str, topic: str) -> Seen:
    """Read records before and after a commit with a response that is too long for our decoder."""
    rounds: list[str] = []
    errors: list[str] = []
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 200,
            "error_cb": lambda error: errors.append(error.name()),
        }
    )
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    consumer.subscribe(
        [topic],
        on_assign=lambda *_: rounds.append("assigned"),
        on_revoke=lambda *_: rounds.append("revoked"),
    )

    def read(count: int) -> list[bytes]:
        values: list[bytes] = []
        deadline_s = time.monotonic() + WITHIN_S
        while len(values) < count and time.monotonic() < deadline_s:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                values.append(message.value() or b"")
        return values

    def produce() -> None:
        for number in range(RECORDS):
            producer.produce(topic, b"%d" % number)
        assert producer.flush(30) == 0

    produce()
    first = read(RECORDS)
    refused = _refusal(consumer, topic)
    produce()
    records = [*first, *read(RECORDS)]
    consumer.commit(asynchronous=False)
    seen = Seen(rounds.count("assigned"), rounds.count("revoked"), records, refused, errors)
    consumer.close()
    return seen


def _refusal(consumer: Consumer, topic: str) -> object:
    """Commit offsets of very many partitions that do not exist; return the errors."""
    offsets = [TopicPartition(topic, 1 + number, 1) for number in range(ELEMENT_LIMIT + 1)]
    try:
        answers = consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        return error.args[0].name()
    return {each.error.name() for each in answers if each.error}


def test_a_client_notices_nothing_of_a_decoder_fault(lab: Lab, tmp_path: Path) -> None:
    direct, proxied = lab.cluster.bootstrap, f"{HOST}:{free_port()}"
    source = f"{{type: proxy, listen: '{proxied}', upstream: ['{direct}']}}"
    for topic in ("direct", "proxied"):
        lab.admin.do(f"create-topic {topic} 1")
    with Observer(tmp_path / "none", tmp_path / "agent", source) as agent:
        agent.wait_ready()
        wanted, seen = _consume(direct, "direct"), _consume(proxied, "proxied")

        assert agent.counter("rebalance_agent_source_errors_total", reason="opaque_answer") == 1
    assert seen == wanted
    assert len(seen.records) == 2 * RECORDS
