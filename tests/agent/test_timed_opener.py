"""Redirections of a request: their bodies, their targets and their time."""

import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError

import pytest

from agent.timed_opener import open_timed

_ENOUGH_S = 60.0


class Handler(BaseHTTPRequestHandler):
    respond: Callable[["Handler"], None]
    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(f"{self.command} {self.path}")
        type(self).respond(self)

    def do_POST(self) -> None:
        self.do_GET()

    def redirect(self, target: str) -> None:
        self.send_response(302)
        self.send_header("Location", target)
        self.end_headers()

    def finish_with(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def serve(respond: Callable[[Handler], None]) -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a server, and its requests so far."""
    seen = list[str]()
    own = type("Own", (Handler,), {"respond": respond, "seen": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), own) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            serving.join()


def test_body_of_a_redirection_is_not_read() -> None:
    """One without an end took 7.6 GiB within the 30 s of `explain --from`."""
    ended, blocks = threading.Event(), list[int]()

    def respond(handler: Handler) -> None:
        if handler.path == "/next":
            handler.finish_with(b"found")
            return
        handler.redirect("/next")
        try:
            while len(blocks) < 256:
                handler.wfile.write(bytes(1 << 20))
                blocks.append(1)
        except OSError:
            pass
        ended.set()

    with serve(respond) as (address, seen):
        with open_timed(urllib.request.Request(address), _ENOUGH_S) as response:
            assert response.read() == b"found"
        assert ended.wait(_ENOUGH_S)

    assert seen == ["GET /", "GET /next"]
    assert len(blocks) < 64  # MiB that the sockets' buffers took


def test_post_is_not_redirected() -> None:
    """It would go on as a GET, with the secret in its headers, wherever the response leads."""
    with (
        serve(lambda handler: handler.finish_with(b"other")) as (other, seen),
        serve(lambda handler: handler.redirect(other)) as (address, _),
        pytest.raises(HTTPError, match="302"),
    ):
        open_timed(urllib.request.Request(address, b"x=1", {"Authorization": "a"}), _ENOUGH_S)

    assert seen == []


@pytest.mark.parametrize("target", ["ftp://127.0.0.1:1/x", "file:///etc/passwd", "data:,x"])
def test_redirection_to_another_protocol_is_an_error(target: str) -> None:
    with (
        serve(lambda handler: handler.redirect(target)) as (address, _),
        pytest.raises(HTTPError, match="302"),
    ):
        open_timed(urllib.request.Request(address), _ENOUGH_S)


def test_slow_redirections_share_the_deadline() -> None:
    def respond(handler: Handler) -> None:
        threading.Event().wait(0.2)
        number = int(handler.path.removeprefix("/") or 0)
        if number == 5:
            handler.finish_with(b"late")
        else:
            handler.redirect(f"/{number + 1}")

    with serve(respond) as (address, _), pytest.raises(TimeoutError):
        open_timed(urllib.request.Request(address), 0.5)
