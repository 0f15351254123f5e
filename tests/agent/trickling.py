"""A peer that answers a request in pieces without end, each of them soon after the last one."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

HOST = "127.0.0.1"
_EVERY_S = 0.05
_END_S = 20.0
"""Whoever waits so long has no deadline."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    name: str
    begin: bytes = b""
    piece: bytes


ANSWERS = [
    Answer(name="status", begin=b"HTTP/1.1 200 ", piece=b"O"),
    Answer(name="head", begin=b"HTTP/1.1 200 OK\r\nX: ", piece=b"x"),
    Answer(name="body", begin=b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n", piece=b" "),
    Answer(name="continue", piece=b"HTTP/1.1 100 Continue\r\n\r\n"),
]


@contextmanager
def trickling(answer: Answer) -> Iterator[str]:
    """Give the address of a peer that sends ``answer`` to each client."""

    def serve(taken: socket.socket, ended: threading.Event) -> None:
        taken.recv(1 << 16)
        taken.sendall(answer.begin)
        for _ in range(round(_END_S / _EVERY_S)):
            if ended.wait(_EVERY_S):
                break
            taken.sendall(answer.piece)

    with _serving(serve) as port:
        yield f"{HOST}:{port}"


@contextmanager
def answering(response: bytes) -> Iterator[str]:
    """Give the address of a peer that sends a response to each client, and closes."""

    def serve(taken: socket.socket, _: threading.Event) -> None:
        taken.recv(1 << 16)
        taken.sendall(response)

    with _serving(serve) as port:
        yield f"{HOST}:{port}"


@contextmanager
def reading_slowly(tls: ssl.SSLContext) -> Iterator[int]:
    """Give the port of a peer that takes a little of a request now and then, by TLS."""

    def serve(taken: socket.socket, ended: threading.Event) -> None:
        with tls.wrap_socket(taken, server_side=True) as secured:
            for _ in range(round(_END_S / _EVERY_S)):
                if ended.wait(_EVERY_S) or not secured.recv(1 << 12):
                    break

    with _serving(serve) as port:
        yield port


@contextmanager
def _serving(serve: Callable[[socket.socket, threading.Event], None]) -> Iterator[int]:
    ended, threads = threading.Event(), list[threading.Thread]()

    def take(taken: socket.socket) -> None:
        with taken, suppress(OSError):
            serve(taken, ended)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threads.append(threading.Thread(target=take, args=[listening.accept()[0]]))
                threads[-1].start()

    with socket.create_server((HOST, 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield listening.getsockname()[1]
        finally:
            ended.set()
            listening.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for thread in threads:
                thread.join()
