"""A rolling restart of all brokers, with every kind of client behind the proxy."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.system.kafka_tools import command
from tests.system.proxy_scene import WITHIN_S, Scene, drain

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900)]

KAFKA_PYTHON = Path(__file__).parent / "kafka_python_stream.py"
TOOLS = "org.apache.kafka.tools."
BURST = 200
_EXACTLY_ONCE = {"processing.guarantee": "exactly_once_v2", "replication.factor": "3"}

Write = Callable[[str], None]
"""Hands a client a record, key and value alike."""


@pytest.fixture
def scene(cache: Path, tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(tmp_path, cache, stack)


def test_a_rolling_restart_loses_and_doubles_nothing(scene: Scene) -> None:
    """Each record of each producer is read once by each consumer, and counted once by Streams."""
    topic = scene.topic("rolling")
    counting = scene.clients.streams("4.3.0", "s1", "counting", topic, _EXACTLY_ONCE)
    counting.wait_for("state RUNNING")
    with ExitStack() as stack:
        readers = {
            "Java": stack.enter_context(_java_reader(scene, topic)),
            "kafka-python": stack.enter_context(_kafka_python_reader(scene, topic)),
            "librdkafka": _librdkafka_reader(scene, topic, "through", scene.bootstrap),
            "librdkafka beside": _librdkafka_reader(
                scene, topic, "beside", scene.cluster.bootstrap
            ),
        }
        sent = _write_while_brokers_restart(scene, topic)

        for name, read in readers.items():
            found = Counter(_within(read, len(sent)))
            doubled, lost = (found - sent).total(), (sent - found).total()
            assert (doubled, lost) == (0, 0), f"{name}: {doubled} doubled, {lost} lost"
    assert _counts(scene, "counting-counts-changelog", len(sent)) == dict(sent)
    counting.close()


def _write_while_brokers_restart(scene: Scene, topic: str) -> Counter[str]:
    """Let all producers write before, during and after each broker's absence; return the counts.

    A producer that could not deliver fails the test.
    """
    sent = Counter[str]()
    with ExitStack() as stack:
        writers = {
            "java": stack.enter_context(_java_writer(scene, topic)),
            "python": stack.enter_context(_kafka_python_writer(scene, topic)),
            "librdkafka": stack.enter_context(_librdkafka_writer(scene, topic)),
        }

        def write() -> None:
            first = sent.total()
            for number in range(first, first + BURST):
                for name, to in writers.items():
                    to(f"{name}-{number}")
                    sent[f"{name}-{number}"] += 1

        write()
        for broker in scene.cluster.brokers:
            broker.stop()
            write()
            broker.restart()
            write()
    return sent


def _within(read: Callable[[], list[str]], count: int) -> list[str]:
    """Return a reader's records, two seconds after it has ``count`` of them."""
    deadline_s = time.monotonic() + WITHIN_S
    while len(read()) < count and time.monotonic() < deadline_s:
        time.sleep(0.1)
    time.sleep(2.0)
    return read()


def _counts(scene: Scene, changelog: str, count: int) -> dict[str, int]:
    """Return the counts of a Streams application by key, when it has ``count`` keys."""
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": scene.cluster.bootstrap,
        "group.id": "counted",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    reader, counts = Consumer(settings), dict[str, int]()
    reader.subscribe([changelog])
    deadline_s = time.monotonic() + WITHIN_S
    while len(counts) < count and time.monotonic() < deadline_s:
        record = reader.poll(0.5)
        if record is not None and record.error() is None:
            counts[(record.key() or b"").decode()] = int.from_bytes(record.value() or b"")
    reader.close()
    return counts


@contextmanager
def _librdkafka_writer(scene: Scene, topic: str) -> Iterator[Write]:
    producer: Producer = scene.producer("all", enable_idempotence=True)
    refused: list[str] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            refused.append(str(error))

    def write(record: str) -> None:
        producer.produce(topic, key=record, value=record, on_delivery=delivered)
        producer.poll(0)

    yield write
    assert producer.flush(WITHIN_S) == 0
    assert refused == []


def _librdkafka_reader(
    scene: Scene, topic: str, group: str, bootstrap: str
) -> Callable[[], list[str]]:
    consumer, found = scene.consumer(topic, bootstrap, group), list[str]()

    def read() -> list[str]:
        found.extend(value.decode() for value in drain(consumer, 0))
        return found

    read()
    return read


@contextmanager
def _java_writer(scene: Scene, topic: str) -> Iterator[Write]:
    more = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    endless = ("--message-send-max-retries", "1000000", "--request-required-acks", "all")
    arguments = [*_java(scene, "ConsoleProducer"), "--topic", topic, *more, *endless]
    with _writer(arguments, scene.folder / "java-writer.out") as write:
        yield lambda record: write(f"{record}:{record}")


@contextmanager
def _java_reader(scene: Scene, topic: str) -> Iterator[Callable[[], list[str]]]:
    arguments = [*_java(scene, "consumer.ConsoleConsumer"), "--topic", topic]
    named = ("--group", "java", "--from-beginning")
    with _reader([*arguments, *named], scene.folder / "java-reader.out") as read:
        yield read


def _java(scene: Scene, tool: str) -> list[str | Path]:
    log = scene.folder / f"{tool}.log"
    return [*command(f"{TOOLS}{tool}", log, scene.cache), "--bootstrap-server", scene.bootstrap]


@contextmanager
def _kafka_python_writer(scene: Scene, topic: str) -> Iterator[Write]:
    with _writer(_kafka_python(scene, "write", topic), scene.folder / "python-writer.out") as write:
        yield write


@contextmanager
def _kafka_python_reader(scene: Scene, topic: str) -> Iterator[Callable[[], list[str]]]:
    arguments = _kafka_python(scene, "read", topic, group_id="kafka-python")
    with _reader(arguments, scene.folder / "python-reader.out") as read:
        yield read


def _kafka_python(scene: Scene, what: str, topic: str, **more: str) -> list[str | Path]:
    settings = json.dumps({"bootstrap_servers": scene.bootstrap, **more})
    return [sys.executable, KAFKA_PYTHON, what, topic, settings]


@contextmanager
def _writer(arguments: list[str | Path], log: Path) -> Iterator[Write]:
    """Run a program that writes each line of its stdin to a topic."""
    with (
        log.open("w") as output,
        subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=output, stderr=output, text=True, bufsize=1
        ) as process,
    ):
        assert process.stdin is not None
        lines = process.stdin
        try:
            yield lambda record: print(record, file=lines)
            lines.close()
            assert process.wait(WITHIN_S) == 0, log.read_text()
        finally:
            process.kill()


@contextmanager
def _reader(arguments: list[str | Path], out: Path) -> Iterator[Callable[[], list[str]]]:
    """Run a program that prints a topic's records, a line each, until it is stopped."""
    errors = out.with_suffix(".err")
    with (
        out.open("w") as output,
        errors.open("w") as problems,
        subprocess.Popen(arguments, stdout=output, stderr=problems) as process,
    ):

        def read() -> list[str]:
            assert process.poll() is None, errors.read_text()
            return out.read_text().splitlines()

        try:
            yield read
            process.terminate()
            assert process.wait(WITHIN_S) in {0, 143}, errors.read_text()
        finally:
            process.kill()
