"""A request has one deadline, whatever its peer sends or takes in small pieces."""

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import trustme

from agent.http_deadline import TimedHttpConnection, TimedHttpsConnection
from tests.agent.trickling import ANSWERS, Answer, reading_slowly, trickling

_SHORT_S = 0.5


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
def test_a_response_in_pieces_without_end_is_given_up(answer: Answer) -> None:
    with trickling(answer) as address:
        connection = TimedHttpConnection(address, timeout=_SHORT_S)
        connection.request("GET", "/")

        with pytest.raises(TimeoutError):
            connection.getresponse().read()

        connection.close()


def test_a_request_that_is_taken_in_pieces_is_given_up() -> None:
    ca, ours = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(ours)
    trusting = ssl.create_default_context()
    ca.configure_trust(trusting)
    with reading_slowly(ours) as port:
        connection = TimedHttpsConnection("127.0.0.1", port, timeout=_SHORT_S, context=trusting)

        with pytest.raises(TimeoutError):
            connection.request("POST", "/", b"x" * (8 << 20))

        connection.close()


def test_each_request_of_a_connection_has_its_own_deadline() -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        connection = TimedHttpConnection("127.0.0.1", server.server_port, timeout=30.0)
        for size in (0, 1, 100_000):
            connection.request("POST", "/", bytes(size))
            used = connection.sock
            assert connection.getresponse().read() == bytes(size)
            assert connection.sock is used
            connection._end_at = 0.0
        connection.close()
        server.shutdown()
        serving.join()
