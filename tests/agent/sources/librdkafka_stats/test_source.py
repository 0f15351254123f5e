"""librdkafka's statistics: recorded ones whole (`--update-golden` writes), and how they come in."""

import asyncio
import json
import re
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer
from hypothesis import given
from hypothesis import strategies as st

from agent.demo.mock_cluster import MockCluster
from agent.errors import ConfigError
from agent.sources.librdkafka_stats import unix_socket as stats_socket
from agent.sources.librdkafka_stats.config import StatsConfig
from agent.sources.librdkafka_stats.source import StatsSource
from agent.sources.lines.following.tail import FileTail
from agent.sources.statistics import interpreter as librdkafka_stats_view
from agent.sources.statistics.interpreter import FORGET_S, StatisticsInterpreter, StatsGroupType
from agent.sources.statistics.line_parser import LINE_LIMIT, StatsParser
from metrics.model.signals import Signal, SignalKind
from metrics.model.status import RebalanceStatus
from tests.agent.sources.librdkafka_stats.stats_lines import NOW, Client

_GOLDEN = Path(__file__).parents[3] / "golden" / "librdkafka_stats"
_FOLDERS = sorted(path.parent for path in _GOLDEN.glob("*/input.jsonl"))
_SHOWN = {0, 1, 3, 4, 5}
_WITHIN_S = 30.0


def parser(group: str | None = "g") -> StatsParser:
    return StatsParser(StatisticsInterpreter(stream="stats:f", group=group))


def read(data: bytes, piece_bytes: int = 1 << 20) -> list[Signal]:
    reader = parser()
    pieces = (data[start : start + piece_bytes] for start in range(0, len(data), piece_bytes))
    return [s for piece in pieces for s in reader.feed(piece, 0.0)] + reader.flush()


def rows(signals: list[Signal]) -> Iterator[dict[str, Any]]:
    for signal in signals:
        yield {
            "at": round(signal.at, 3),
            "kind": signal.kind.value,
            "client_id": signal.member.client_id,
            "stream": signal.member.origin,
            "status": signal.status.label,
            "reason": signal.reason,
        }


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda folder: folder.name)
class TestRecordedClients:
    def test_the_recorded_clients_are_read_as_they_acted(
        self, folder: Path, request: pytest.FixtureRequest
    ) -> None:
        expected = folder / "expected.jsonl"
        found = list(rows(read((folder / "input.jsonl").read_bytes())))

        if request.config.getoption("--update-golden"):
            expected.write_text("".join(json.dumps(row) + "\n" for row in found))

        assert found == [json.loads(line) for line in expected.read_text().splitlines()]

    def test_pieces_change_nothing(self, folder: Path) -> None:
        data = (folder / "input.jsonl").read_bytes()

        assert read(data, piece_bytes=997) == read(data)

    def test_a_restart_changes_nothing(self, folder: Path) -> None:
        data = (folder / "input.jsonl").read_bytes()
        cut = data.index(b"\n", len(data) // 2) + 1
        before, after = parser(), parser()

        found = before.feed(data[:cut], 0.0)
        after.restore(json.loads(json.dumps(before.state())))
        found += after.feed(data[cut:], 0.0) + after.flush()

        assert found == read(data)

    def test_nothing_is_shown_but_what_statistics_can_tell(self, folder: Path) -> None:
        shown = {int(s.status) for s in read((folder / "input.jsonl").read_bytes())}

        assert shown <= _SHOWN

    def test_the_recording_says_how_it_was_made(self, folder: Path) -> None:
        assert (folder / "README.md").read_text().startswith("# ")


def got(signals: Sequence[Signal]) -> list[tuple[str, int]]:
    return [(s.kind.value, int(s.status)) for s in signals]


def test_a_rebalance_between_two_looks_has_its_cause_and_its_end() -> None:
    reader, client = parser(), Client()
    reader.feed(client.says(count=1), 0.0)

    found = reader.feed(client.says(count=3, reason="rebalance in progress", age=250), 0.0)

    assert got(found) == [("raise", 1), ("sync", 0)]
    assert {signal.at for signal in found} == {NOW + 1.75}


def test_a_member_that_polled_too_late_holds_its_five() -> None:
    reader, client = parser(), Client()
    reader.feed(client.says(count=1), 0.0)
    reason = "max.poll.interval.ms exceeded"

    found = reader.feed(client.says("wait-unassign-call", 2, reason), 0.0)
    found += reader.feed(client.says("init", 2, reason), 0.0)
    found += reader.feed(client.says("steady", 3, reason), 0.0)

    assert got(found) == [("raise", 5), ("sync", 0)]


@pytest.mark.parametrize(
    "reason", ["", "unsubscribe", "Metadata for subscribed topic(s) has changed", "JoinGroup error"]
)
def test_a_reason_that_can_mean_several_things_is_no_code(reason: str) -> None:
    reader, client = parser(), Client()
    reader.feed(client.says(count=1), 0.0)

    found = reader.feed(client.says(count=3, reason=reason), 0.0)

    assert got(found) == [("join", 0), ("sync", 0)]


def test_an_old_reason_is_no_cause_of_a_new_rebalance() -> None:
    reader, client = parser(), Client()
    reader.feed(client.says(count=2, reason="max.poll.interval.ms exceeded"), 0.0)

    found = reader.feed(client.says(count=3, reason="max.poll.interval.ms exceeded"), 0.0)

    assert got(found) == [("join", 0), ("sync", 0)]


def test_a_fenced_client_has_failed() -> None:
    reader, client = parser(), Client()
    reader.feed(client.says(count=1), 0.0)

    found = reader.feed(client.says("init", 2, "consumer fenced by newer instance"), 0.0)

    assert got(found) == [("fail", 0)]


def test_who_is_silent_while_the_group_rebalances_is_suspected_once() -> None:
    reader, silent, other = parser(), Client("slow"), Client("m1")
    for _ in range(2):
        reader.feed(silent.says() + other.says(), 0.0)

    found = [s for _ in range(8) for s in reader.feed(other.says("wait-join"), 0.0)]

    notes = [s for s in found if s.kind is SignalKind.NOTE]
    assert [(s.member.client_id, s.status) for s in notes] == [("slow", RebalanceStatus.NONE)]


def test_nobody_is_suspected_while_nobody_waits() -> None:
    reader, silent, other = parser(), Client("slow"), Client("m1")
    for _ in range(2):
        reader.feed(silent.says() + other.says(), 0.0)

    assert [s for _ in range(8) for s in reader.feed(other.says("init"), 0.0)] == []


def test_a_client_that_speaks_no_more_is_forgotten() -> None:
    reader = parser()
    reader.feed(Client().says(), 0.0)

    reader.interpreter.advance(NOW + 2 + FORGET_S)

    assert reader.interpreter.departed_origins == ["stats:f#m1#consumer-1"]


def test_a_restarted_client_is_another_one() -> None:
    reader = parser()
    reader.feed(Client().says(count=7) + Client().says(count=7), 0.0)
    young = Client().line(age=0, cgrp=json.loads(Client().says("wait-join", 0))["cgrp"])

    assert got(reader.feed(young, 0.0)) == [("join", 0)]


def test_what_is_no_statistics_of_a_consumer_is_counted() -> None:
    reader = parser()

    found = reader.feed(b"{\n[]\n\xff\n" + b"[" * 5_000 + b"\n\n", 0.0)
    found += reader.feed(b"x" * (LINE_LIMIT + 1) + b"\n" + Client("producer").line(), 0.0)

    assert (found, reader.counts.unread, reader.counts.long) == ([], 4, 1)


@pytest.mark.parametrize("key", ["ts", "time", "age", "rebalance_age", "rebalance_cnt"])
@pytest.mark.parametrize("number", ["9" * 19, "9" * 400, "-" + "9" * 400])
def test_a_number_without_end_is_no_statistics(key: str, number: str) -> None:
    reader, line = parser(), Client().says()
    wrong = re.sub(
        rb'"%b": ?[0-9]+' % key.encode(), b'"%b":%b' % (key.encode(), number.encode()), line
    )

    reader.feed(line + wrong, 0.0)

    assert reader.counts.unread == 1


def test_a_line_may_name_its_group_and_must_where_nobody_else_does() -> None:
    reader, client = parser(group=None), Client()
    line = client.says()
    named = json.loads(line) | {"group_id": "own"}

    found = reader.feed(line + json.dumps(named).encode() + b"\n", 0.0)

    assert [signal.member.group for signal in found] == ["own"]
    assert reader.interpreter.without_group == 1


def test_the_group_type_is_the_configurations(tmp_path: Path) -> None:
    config = StatsConfig(path=str(tmp_path / "f"), group="g", group_type=StatsGroupType.CONSUMER)

    (signal,) = StatsSource(config)._create_parser("f").feed(Client().says(), 0.0)

    assert (signal.member.group_type, signal.member.protocol_type) == ("consumer", None)


@given(st.binary())
def test_any_bytes_are_read_or_counted(data: bytes) -> None:
    parser().feed(data + b"\n", 0.0)


def test_a_wrong_configuration_says_so() -> None:
    with pytest.raises(ConfigError, match="path: found none"):
        StatsConfig(path="")


class Bench:
    """A running source, and its signals."""

    def __init__(self, path: Path, position: dict[str, Any] | None = None) -> None:
        self.signals: list[Signal] = []
        self.gone: list[str] = []
        self.source = StatsSource(StatsConfig(path=str(path), group="g"), position=position)
        self._news = asyncio.Event()

    def run(self, play: Callable[["Bench"], Awaitable[None]]) -> None:
        async def both() -> None:
            reading = asyncio.create_task(self.source.run(self._emit, self._detach))
            try:
                await asyncio.wait_for(play(self), _WITHIN_S)
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

        asyncio.run(both())

    async def until(self, enough: Callable[[], bool]) -> None:
        while not enough():
            self._news.clear()
            await asyncio.wait([asyncio.create_task(self._news.wait())], timeout=0.05)

    def _emit(self, signals: Sequence[Signal]) -> None:
        self.signals += signals
        self._news.set()

    def _detach(self, stream: str, _: float) -> None:
        self.gone.append(stream)
        self._news.set()


@pytest.mark.slow
def test_a_process_writes_to_the_socket_and_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(librdkafka_stats_view, "_CLIENT_LIMIT", 1)
    path, now = tmp_path / "stats.sock", int(time.time())
    client = Client()
    client.seconds = now - NOW
    bench = Bench(path)

    async def play(bench: Bench) -> None:
        await bench.until(path.exists)
        _, writer = await asyncio.open_unix_connection(path)
        writer.write(Client("before").says() + client.says() + b"no json\n")
        await bench.until(lambda: bool(bench.signals))
        writer.close()
        await bench.until(lambda: len(bench.gone) == 2)

    bench.run(play)

    assert got(bench.signals) == [("seen", 0), ("seen", 0)]
    assert set(bench.gone) == {signal.member.origin for signal in bench.signals}
    assert bench.source.health.unparsed == 1
    assert bench.source.health.errors == {"member_evicted": 1}
    assert not path.exists()


def test_a_socket_that_a_former_agent_left_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "stats.sock"

    with socket.socket(socket.AF_UNIX) as left:  # asyncio removes its own since Python 3.13
        left.bind(str(path))
    assert path.is_socket()
    bench = Bench(path)

    bench.run(lambda bench: bench.until(lambda: bench.source.health.up))

    assert bench.source.health.errors == {}


def test_a_file_in_the_sockets_place_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "stats.sock"
    path.write_text("mine")
    bench = Bench(path)

    bench.run(lambda bench: bench.until(lambda: bool(bench.source.health.errors)))

    assert path.read_text() == "mine"
    assert (bench.source.health.up, bench.source.health.errors) == (False, {"socket": 1})


def test_a_source_tells_who_is_silent_who_has_gone_and_whose_group_is_not_known(
    tmp_path: Path,
) -> None:
    path, slow, other = tmp_path / "stats.jsonl", Client("slow"), Client("m1")
    lines = [slow.says(), other.says(), slow.says(), other.says("wait-join"), other.says("init")]
    path.write_bytes(b"".join(lines))
    got: list[Signal] = []
    gone: list[str] = []
    now = NOW + 4.0
    source = StatsSource(StatsConfig(path=str(path), group="g"), clock=lambda: now)
    reading = source._reader
    assert isinstance(reading, FileTail)
    reading.step(got.extend, lambda *_: None)
    got.clear()

    def tick(after_s: float) -> None:
        nonlocal now
        now += after_s
        source.tick(got.extend, lambda stream, _: gone.append(stream))

    with path.open("ab") as file:
        file.write(other.says("wait-join"))
    now += 5.0
    reading.step(got.extend, lambda *_: None)
    tick(10.0)
    assert [(s.kind, s.member.client_id) for s in got if s.kind is SignalKind.NOTE] == [
        (SignalKind.NOTE, "slow"),
        (SignalKind.NOTE, "m1"),
    ]
    source._interpreters[0].without_group = 2
    tick(FORGET_S)
    for tail in reading._tails.values():
        tail.follower.close()

    assert sorted(gone) == [f"stats:{path}#{name}#consumer-1" for name in ("m1", "slow")]
    assert source.health.errors == {"no_group": 2}
    assert source.health.signals >= 2


def test_a_socket_with_too_many_writers_lets_no_more_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats_socket, "MAX_CONNECTIONS", 0)
    path = tmp_path / "stats.sock"
    bench = Bench(path)

    async def play(bench: Bench) -> None:
        await bench.until(path.exists)
        reader, writer = await asyncio.open_unix_connection(path)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()

    bench.run(play)

    assert bench.source.health.errors == {"too_many_connections": 1}


def test_half_lines_of_all_writers_are_bounded_and_the_longest_silent_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """256 writers that send most of a line and stop would have a GiB."""
    monkeypatch.setattr(stats_socket, "HALF_LINES_MAX", 1_000)
    path = tmp_path / "stats.sock"
    bench = Bench(path)

    async def play(bench: Bench) -> None:
        await bench.until(path.exists)
        peers = []
        for count in range(1, 4):
            reader, writer = await asyncio.open_unix_connection(path)
            peers.append((reader, writer))
            writer.write(b"x" * 400)
            await bench.until(lambda: bench.source.health.read_bytes == 400 * count)  # noqa: B023
        assert await peers[0][0].read() == b""
        peers[2][1].write(b"\n" + Client().says())
        await bench.until(lambda: bool(bench.signals))
        for _, writer in peers:
            writer.close()
            await writer.wait_closed()

    bench.run(play)

    assert bench.source.health.errors == {"half_lines": 1}


def test_a_file_goes_on_after_a_restart(tmp_path: Path) -> None:
    path, client = tmp_path / "stats.jsonl", Client()
    path.write_bytes(client.says(count=1))
    before = Bench(path)
    before.run(lambda bench: bench.until(lambda: bool(bench.signals)))
    position = msgspec.json.decode(msgspec.json.encode(before.source.checkpoint()))
    with path.open("ab") as file:
        file.write(client.says(count=3, reason="rebalance in progress"))

    after = Bench(path, position)
    after.run(lambda bench: bench.until(lambda: len(bench.signals) == 2))

    assert got(before.signals + after.signals) == [("seen", 0), ("raise", 1), ("sync", 0)]


def test_a_real_client_is_read_from_its_own_callback() -> None:
    lines: list[str] = []
    reader = parser()
    with MockCluster() as cluster:
        cluster.create_topic("t", 2)
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "g",
            "client.id": "m1",
            "statistics.interval.ms": 50,
            "stats_cb": lines.append,
        }
        consumer = Consumer(settings)
        consumer.subscribe(["t"])
        found: list[Signal] = []
        end_s = time.monotonic() + _WITHIN_S
        while time.monotonic() < end_s and SignalKind.SYNC not in {s.kind for s in found}:
            consumer.poll(0.05)
            found += reader.feed("".join(line + "\n" for line in lines).encode(), 0.0)
            lines.clear()
        consumer.close()

    assert SignalKind.SYNC in {s.kind for s in found}
    assert {(s.member.client_id, int(s.status)) for s in found} == {("m1", 0)}
    assert reader.counts.unread == 0


def test_long_names_of_statistics_are_clipped_in_signals_and_state() -> None:
    reader, client = parser(group=None), Client("c" * 30_000)
    line = json.loads(client.says("wait-join", reason="r" * 30_000)) | {"group_id": "g" * 30_000}

    signals = reader.feed(json.dumps(line).encode() + b"\n", 0.0)

    assert [len(signal.member.group) for signal in signals] == [255]
    assert [len(signal.member.client_id) for signal in signals] == [255]
    assert len(json.dumps(reader.state())) < 4_000
