"""A push to a hub that is silent, lost its numbering, or cannot read a record."""

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent.config.hub import HubConfig
from agent.errors import OutputError
from agent.outputs.hub_push import push as hub_push
from agent.outputs.hub_push.push import HubPush
from agent.outputs.spool.identity import spool_id
from agent.outputs.spool.spool import JsonlSpool, SpoolConfig, SpoolMark
from metrics.model.status import RebalanceStatus as Status
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.agent.trickling import ANSWERS, Answer, trickling
from tests.metrics.given import raised, run


class Hub:
    """Answers as a hub does, with numbers by spool."""

    def __init__(self) -> None:
        self.seqs: dict[str, int] = {}
        self.unreadable = 0
        self.answer = b""
        """Its body, whatever it got; empty: the true one."""
        self.readable_from = 0
        """As the last release's hub: its number stays before records that it cannot read."""
        self.received: list[list[int]] = []
        self.foreign_seq = 0

    @contextmanager
    def serving(self) -> Iterator[str]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.respond()

            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                body = self.rfile.read(size)
                if body:
                    hub.receive(self.headers["X-Spool"], gzip.decompress(body))
                self.respond()

            def respond(self) -> None:
                seq = hub.seqs.get(self.headers["X-Spool"], 0)
                body = json.dumps({"seq": seq, "unreadable": hub.unreadable}).encode()
                body = hub.answer or body
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def receive(self, spool: str, lines: bytes) -> None:
        numbers = [json.loads(line)["seq"] for line in lines.splitlines()]
        self.received.append(numbers)
        readable = [number for number in numbers if number >= self.readable_from]
        self.seqs[spool] = max([self.seqs.get(spool, 0), *readable, self.foreign_seq])


def spool_of_one(folder: Path) -> None:
    spool_of(folder, 1)


def spool_of(folder: Path, count: int) -> None:
    spool = JsonlSpool(SpoolConfig(dir=folder), agent="a", now=1000.0)
    for number in range(count):
        tracker = Tracker(StatusConfig())
        spool.write(run(tracker, raised(Status.NEW_MEMBER, 1000.0 + number)))
    spool.close()


def test_an_empty_spool_gets_a_new_id(tmp_path: Path) -> None:
    """Its files were taken away and its checkpoint was lost: numbers begin at 1 again."""
    before = spool_id(tmp_path)

    JsonlSpool(SpoolConfig(dir=tmp_path), agent="a", now=1000.0).close()

    assert spool_id(tmp_path) != before


def test_an_ingested_spool_with_its_checkpoint_keeps_its_id(tmp_path: Path) -> None:
    before = spool_id(tmp_path)

    JsonlSpool(
        SpoolConfig(dir=tmp_path), agent="a", now=1000.0, mark=SpoolMark(seq=7, settled=7)
    ).close()

    assert spool_id(tmp_path) == before


def test_a_numbering_below_the_hubs_is_renewed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool_of_one(tmp_path)
    hub = Hub()
    hub.seqs[spool_id(tmp_path)] = 107
    with hub.serving() as url:
        push = HubPush(url, HubConfig(push_to=(url,)), tmp_path)

        push.push()

    assert hub.seqs[spool_id(tmp_path)] == 1
    assert [record.getMessage() for record in caplog.records] == ["spool_renumbered"]


@pytest.mark.parametrize(
    ("seq", "found", "is_renewed"),
    [(2, "another", True), (2, "", False), (2, None, False), (0, "another", False)],
)
def test_a_spool_whose_number_is_another_record_at_the_hub_is_renewed(
    tmp_path: Path, seq: int, found: str | None, is_renewed: bool
) -> None:
    """Its folder was copied, and the other agent has pushed; None is its own record."""
    spool_of(tmp_path, 3)
    before, hub = spool_id(tmp_path), Hub()
    own = [
        json.loads(line) for f in tmp_path.glob("*.jsonl") for line in f.read_bytes().splitlines()
    ]
    record = own[1]["id"] if found is None else found
    hub.answer = json.dumps({"seq": seq, "id": record}).encode()
    with hub.serving() as url:
        HubPush(url, HubConfig(push_to=(url,)), tmp_path).push()

    assert (spool_id(tmp_path) != before) is is_renewed


def test_records_that_the_hub_passes_over_count_as_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool_of_one(tmp_path)
    hub = Hub()
    hub.unreadable = 1
    with hub.serving() as url:
        push = HubPush(url, HubConfig(push_to=(url,)), tmp_path)

        push.push()

    assert (push.stats.written, push.stats.dropped) == (0, 1)
    assert [record.getMessage() for record in caplog.records] == ["hub_cannot_read_records"]


def test_an_old_hub_that_cannot_read_a_batch_does_not_block(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_push, "MAX_LINES", 2)
    spool_of(tmp_path, 7)
    hub = Hub()
    hub.readable_from = 6
    with hub.serving() as url:
        push = HubPush(url, HubConfig(push_to=(url,)), tmp_path)

        while push.push():
            pass

    assert hub.received == [[1, 2], [3, 4], [5, 6], [7]]
    assert hub.seqs[spool_id(tmp_path)] == 7
    assert (push.stats.written, push.stats.dropped, push.stats.buffered) == (3, 4, 0)
    assert {record.getMessage() for record in caplog.records} == {"hub_cannot_read_records"}


def test_a_hub_restored_from_a_backup_gets_what_it_lacks(tmp_path: Path) -> None:
    spool_of(tmp_path, 7)
    hub = Hub()
    with hub.serving() as url:
        push = HubPush(url, HubConfig(push_to=(url,)), tmp_path)
        push.push()
        hub.seqs[spool_id(tmp_path)] = 3
        push = HubPush(url, HubConfig(push_to=(url,)), tmp_path)

        push.push()

    assert hub.received == [[1, 2, 3, 4, 5, 6, 7], [4, 5, 6, 7]]
    assert (push.stats.written, push.stats.dropped) == (4, 0)


def test_a_number_that_the_spool_does_not_have_is_refused_and_renumbered(tmp_path: Path) -> None:
    """Else a broken hub would make the agent skip records for ever, without a word."""
    spool_of(tmp_path, 3)
    hub, before = Hub(), spool_id(tmp_path)
    hub.readable_from = 1
    with hub.serving() as url:
        push = HubPush(url, HubConfig(push_to=(url,)), tmp_path)
        hub.foreign_seq = 1 << 40
        with pytest.raises(OutputError, match=r"found record 1099511627776, wanted at most 3"):
            push.push()
        hub.foreign_seq = 0
        push = HubPush(url, HubConfig(push_to=(url,)), tmp_path)

        push.push()

    assert spool_id(tmp_path) != before
    assert hub.seqs[spool_id(tmp_path)] == 3


@pytest.mark.parametrize(
    "body",
    [
        b'{"seq":1,"x":"' + b"x" * hub_push.ANSWER_BYTES_MAX,
        b'{"seq":1,"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"seq":-1}',
        b'{"seq":1,"unreadable":-1}',
        b'{"seq":1%b}' % (b"0" * 400),
    ],
)
def test_a_hostile_answer_is_an_error_and_is_not_read_whole(tmp_path: Path, body: bytes) -> None:
    spool_of_one(tmp_path)
    hub = Hub()
    hub.answer = body
    with hub.serving() as url:
        push = HubPush(url, HubConfig(push_to=(url,)), tmp_path)

        with pytest.raises(hub_push._FAULTS):
            push.push()


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
def test_a_hub_that_trickles_is_given_up(
    answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool_of_one(tmp_path)
    monkeypatch.setattr(hub_push, "_TIMEOUT_S", 0.5)
    with trickling(answer) as address:
        push = HubPush(f"http://{address}", HubConfig(push_to=(f"http://{address}",)), tmp_path)

        with pytest.raises(TimeoutError):
            push.push()


def test_a_hub_that_passes_over_more_than_it_got_passes_over_that(tmp_path: Path) -> None:
    spool_of(tmp_path, 3)
    hub = Hub()
    hub.unreadable = 10**6
    with hub.serving() as url:
        push = HubPush(url, HubConfig(push_to=(url,)), tmp_path)

        push.push()

    assert (push.stats.written, push.stats.dropped) == (0, 3)


def test_a_silent_hub_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """The event loop ends although the thread of the push still waits."""
    spool_of_one(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        push = HubPush(url, HubConfig(push_to=(url,)), tmp_path)
        peers: list[socket.socket] = []

        async def scenario() -> None:
            running = asyncio.create_task(push.run())
            peers.append((await asyncio.to_thread(silent.accept))[0])
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        asyncio.run(scenario())

        alive = [thread for thread in threading.enumerate() if thread.name == push.name]
        assert [thread.daemon for thread in alive] == [True]
        peers[0].close()
        alive[0].join()
