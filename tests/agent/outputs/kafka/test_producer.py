"""The sink and the hub's reader against librdkafka's own brokers, in this process."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import KafkaException, Producer

from agent.config.kafka import KafkaAccess
from agent.config.security import SecurityConfig
from agent.demo.mock_cluster import MockCluster
from agent.errors import OutputError, SourceError
from agent.hub.topic_intake import TopicRecord
from agent.hub.topic_reader import TopicReader
from agent.outputs.kafka.client_config import client_properties
from agent.outputs.kafka.producer import KafkaOutput
from agent.outputs.spool.spool import JsonlSpool, SpoolConfig
from agent.processes.ports import free_port
from metrics.model.sample import Sample
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.agent.inspection.connection.test_broker_connection import server
from tests.agent.inspection.simulated import KAFKA_28, Simulated
from tests.metrics.given import raised, run

pytestmark = pytest.mark.kafka
DEADLINE_S = 60.0
PRODUCE, TOPIC_AUTHORIZATION_FAILED = 0, 29
_decode = msgspec.json.Decoder(Sample).decode


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster() as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: MockCluster, tmp_path: Path) -> str:
    name = f"samples-{tmp_path.name}"
    cluster.create_topic(name, 3)
    return name


class Place:
    """A spool and the position of the next record to send."""

    def __init__(self, folder: Path, bootstrap: str, topic: str) -> None:
        self.folder, self.topic = folder, topic
        self.access = KafkaAccess((bootstrap,), SecurityConfig())
        self.spool = JsonlSpool(SpoolConfig(dir=folder), agent="a", now=100.0)
        self._tracker = Tracker(StatusConfig())
        self._at = 100.0

    def write(self, count: int) -> None:
        """Let records of three groups come to the spool."""
        for number in range(count):
            self._at += 1000.0
            (record, *_) = run(self._tracker, raised(1 + number % 5, self._at))
            named = msgspec.structs.replace(
                record, id=f"{self._at}", group=f"group-{number % 3}", to=1
            )
            self.spool.write([named])
        self.spool.commit()

    def sink(self) -> KafkaOutput:
        return KafkaOutput(
            self.topic,
            self.access,
            folder=self.folder,
            progress=self.folder / "state" / "kafka.json",
            newest=lambda: self.spool.mark.seq,
        )

    def reader(self, offsets: dict[int, int] | None = None) -> TopicReader:
        starts = dict.fromkeys(range(3), 0) | (offsets or {})  # these brokers know no times
        return TopicReader(client_properties(self.access), self.topic, starts, 3600.0)

    def read(self, offsets: dict[int, int] | None = None) -> list[TopicRecord]:
        with closing(self.reader(offsets)) as reader:
            found = reader.read()
            while not reader.at_end:
                found += reader.read()
        return found


def until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not fact():
        assert time.monotonic() < deadline


def drain(sink: KafkaOutput) -> None:
    until(lambda: not sink.step())


def seqs(records: list[TopicRecord]) -> list[int]:
    return [_decode(record.line).seq for record in records]


@pytest.fixture
def place(tmp_path: Path, cluster: MockCluster, topic: str) -> Iterator[Place]:
    place = Place(tmp_path / "spool", cluster.bootstrap, topic)
    yield place
    place.spool.close()


def test_a_groups_records_lie_in_one_partition_in_order(place: Place) -> None:
    place.write(30)
    sink = place.sink()
    assert sink.stats.buffered == 30
    drain(sink)
    records = place.read()

    assert sorted(seqs(records)) == list(range(1, 31))
    for partition in range(3):
        here = [_decode(record.line) for record in records if record.partition == partition]
        assert [each.seq for each in here] == sorted(each.seq for each in here)
    where = {(_decode(record.line).group, record.partition) for record in records}
    assert len(where) == 3
    assert {record.spool for record in records} == {(place.folder / ".id").read_text()}
    assert (sink.stats.written, sink.stats.buffered, sink.stats.errors) == (30, 0, 0)


def test_goes_on_where_it_was_and_sends_again_what_was_not_written_down(place: Place) -> None:
    place.write(3)
    drain(place.sink())
    place.write(2)
    drain(place.sink())
    assert sorted(seqs(place.read())) == [1, 2, 3, 4, 5]
    (place.folder / "state" / "kafka.json").unlink()
    drain(place.sink())

    assert sorted(seqs(place.read())) == sorted([1, 2, 3, 4, 5] * 2)


def test_what_is_no_record_goes_too_and_stops_nothing(place: Place) -> None:
    """The readers of the topic find malformed records; Spark keeps these in quarantine."""
    place.write(3)
    (part,) = place.folder.glob(".*.part")
    lines = part.read_bytes().splitlines()
    lines[1] = msgspec.json.encode(msgspec.json.decode(lines[1]) | {"cluster": 7})
    part.write_bytes(b"".join(line + b"\n" for line in lines))

    drain(place.sink())

    assert sorted(record.line for record in place.read()) == sorted(lines)


def test_another_spool_begins_anew(place: Place) -> None:
    place.write(3)
    drain(place.sink())
    (place.folder / ".id").write_text("another")
    drain(place.sink())

    assert sorted(seqs(place.read())) == [1, 1, 2, 2, 3, 3]


def test_what_the_bounded_spool_dropped_is_counted(place: Place) -> None:
    place.write(4)
    place.spool.tick(1e9)
    place.write(2)
    min(place.folder.glob("*.jsonl")).unlink()
    sink = place.sink()
    drain(sink)

    assert sorted(seqs(place.read())) == [5, 6]
    assert (sink.stats.written, sink.stats.dropped) == (2, 4)


def test_refusal_is_an_error_and_nothing_is_lost(place: Place, cluster: MockCluster) -> None:
    place.write(3)
    sink = place.sink()
    cluster.fail_next(PRODUCE, TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(OutputError, match="Topic authorization failed"):
        until(lambda: not sink.step())
    sink.close()
    drain(sink)

    assert set(seqs(place.read())) == {1, 2, 3}
    assert sink.stats.buffered == 0


def test_brokers_that_are_away_are_told_once(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("agent.outputs.kafka.producer._ACK_TIMEOUT_S", 0.0)
    there = place.access
    place.access = KafkaAccess((f"127.0.0.1:{free_port()}",), SecurityConfig())
    place.write(2)
    away = place.sink()
    until(lambda: away.step() and away.stats.errors > 0)
    away.step()
    away.close()

    assert [record.message for record in caplog.records] == ["kafka_unreachable"]
    assert (away.stats.buffered, away.stats.written) == (2, 0)
    place.access = there
    drain(place.sink())
    assert sorted(seqs(place.read())) == [1, 2]


def test_reason_of_a_producer_that_ended_between_two_batches_is_named(place: Place) -> None:
    """It was "Unable to produce message: Local: Fatal error"."""
    with Simulated(versions=KAFKA_28) as cluster:
        place.access = KafkaAccess((cluster.bootstrap,), SecurityConfig())
        sink = place.sink()
        sink.step()
        producer = sink._producer
        assert producer is not None
        until(lambda: _is_fatal(producer))
        place.write(1)

        with pytest.raises(OutputError, match="Idempotent producer not supported"):
            sink.step()
        sink.close()


def _is_fatal(producer: Producer) -> bool:
    threading.Event().wait(0.05)
    try:
        producer.produce("other", b"")
    except KafkaException:
        return True
    return False


def test_response_of_megabytes_is_not_read(place: Place) -> None:
    """librdkafka takes 100 MB of each broker."""
    with server(respond_with_5_mib) as port:
        place.access = KafkaAccess((f"127.0.0.1:{port}",), SecurityConfig())
        place.write(1)
        sink, texts = place.sink(), list[str]()
        sink._properties["error_cb"] = lambda error: texts.append(error.str())
        until(lambda: sink.step() and any("Invalid response size" in text for text in texts))
        sink.close()


def respond_with_5_mib(taken: socket.socket) -> None:
    head = taken.recv(1 << 16)
    with suppress(OSError):
        taken.sendall(struct.pack(">i", 5 << 20) + head[8:12] + bytes(1 << 16))
        taken.recv(1)


def test_reader_goes_on_from_offsets(place: Place) -> None:
    place.write(9)
    drain(place.sink())
    records = place.read()
    ends = {record.partition: record.offset + 1 for record in records}

    assert place.read(ends) == []
    place.write(3)
    drain(place.sink())
    assert sorted(seqs(place.read(ends))) == [10, 11, 12]


def test_topic_that_is_not_there_is_named(place: Place) -> None:
    place.topic = "nowhere"

    with pytest.raises(SourceError, match=r"topic 'nowhere': .*[Uu]nknown topic"):
        place.reader()


def test_brokers_that_are_not_there_are_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.hub.topic_reader._TIMEOUT_S", 1.0)
    place.access = KafkaAccess((f"127.0.0.1:{free_port()}",), SecurityConfig())

    with pytest.raises(SourceError, match=r"topic 'samples-.*Connection refused"):
        place.reader()
