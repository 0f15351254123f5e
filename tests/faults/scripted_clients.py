"""Clients that live short lives at a broker, over real connections, by a script both know.

A connection that breaks is a life that ends; the next one begins at once.
"""

import socket
from itertools import count
from threading import Event, Thread
from types import TracebackType
from typing import Self

from agent.processes.ports import HOST
from tests.agent.wire.frames import LEAVE_GROUP
from tests.agent.wire.talk import Wire

_CLIENTS = 3
_PAUSE_S = 0.005
_TIMEOUT_S = 10.0

Script = list[tuple[bool, bytes]]


def a_life(client_id: str) -> Script:
    """Return all frames of a member that joins, rebalances twice and leaves."""
    talk = Wire().connect(client_id)
    member_id = f"{client_id}-a"
    talk.join("")
    talk.joined(member_id, error=79)
    talk.settle(member_id)
    for generation in (2, 3):
        talk.heartbeat(member_id, generation=generation - 1)
        talk.heartbeat(member_id, generation=generation - 1, error=27)
        talk.settle(member_id, generation=generation)
    talk.ask(LEAVE_GROUP, 5, group_id="g", members=({"member_id": member_id},))
    return talk.log


class ScriptedClients:
    """Connects to ``port`` repeatedly; `broker` is the server that must be reached."""

    def __init__(self, port: int) -> None:
        self.lives = 0
        """How many came to their end."""
        self._server = socket.create_server((HOST, 0))
        self.broker = f"{HOST}:{self._server.getsockname()[1]}"
        self._port, self._over, self._number = port, Event(), count(1)
        self._scripts: dict[bytes, Script] = {}
        a_life("imports")  # what writes frames is not loaded by several threads at once
        self._threads = [Thread(target=self._serve, daemon=True)]
        self._threads += [Thread(target=self._live, daemon=True) for _ in range(_CLIENTS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._server.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._server.close()

    def _live(self) -> None:
        while not self._over.wait(_PAUSE_S):
            try:
                with socket.create_connection((HOST, self._port), _TIMEOUT_S) as end:
                    script = a_life(f"m{next(self._number)}")
                    self._scripts[script[0][1]] = script
                    _play(end, script, from_client=True)
                self.lives += 1
            except OSError:  # the agent between us was killed, or does not listen yet
                continue

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                end, _ = self._server.accept()
            except OSError:  # we are closed
                return
            Thread(target=self._answer, args=(end,), daemon=True).start()

    def _answer(self, end: socket.socket) -> None:
        end.settimeout(_TIMEOUT_S)
        with end:
            try:
                head = _take(end, 4)
                first = head + _take(end, int.from_bytes(head, "big"))
                _play(end, self._scripts[first][1:], from_client=False)
            except OSError:  # as above
                return


def _play(end: socket.socket, script: Script, *, from_client: bool) -> None:
    for by_client, data in script:
        if by_client is from_client:
            end.sendall(data)
        else:
            _take(end, len(data))


def _take(end: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = end.recv(size - len(data))
        if not piece:
            raise ConnectionResetError
        data += piece
    return bytes(data)
