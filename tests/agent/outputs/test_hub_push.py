"""A push to a hub that is silent, lost its numbering, or cannot read a record."""

import asyncio
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
from agent.outputs.hub_push.push import HubPush
from agent.outputs.spool.identity import spool_id
from agent.outputs.spool.spool import JsonlSpool, SpoolConfig, SpoolMark
from metrics.model.status import RebalanceStatus as Status
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.metrics.given import raised, run


class Hub:
    """Answers as a hub does, with numbers by spool."""

    def __init__(self) -> None:
        self.seqs: dict[str, int] = {}
        self.unreadable = 0

    @contextmanager
    def serving(self) -> Iterator[str]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.respond()

            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                if self.rfile.read(size):
                    hub.seqs[self.headers["X-Spool"]] = int(self.headers["X-After"]) + 1
                self.respond()

            def respond(self) -> None:
                seq = hub.seqs.get(self.headers["X-Spool"], 0)
                body = json.dumps({"seq": seq, "unreadable": hub.unreadable}).encode()
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


def spool_of_one(folder: Path) -> None:
    spool = JsonlSpool(SpoolConfig(dir=folder), agent="a", now=1000.0)
    spool.write(run(Tracker(StatusConfig()), raised(Status.NEW_MEMBER, 1000.0)))
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
