"""A log under load: consumers that rebalance without end, written by a thread in any pieces."""

import random
from collections import Counter
from datetime import datetime
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Self

_CLIENTS = 5
_PAUSE_S = 0.02
_PIECE_BYTES_MAX = 600
"""A round has some 500 bytes, so a piece rarely ends with a line."""

# ConsumerCoordinator, 3.5 to 4.3
_ROUND = (
    "Request joining group due to: need to re-join with the given member-id: {client}-7d",
    (
        "Successfully synced group in generation Generation{{generationId={generation},"
        " memberId='{client}-7d', protocol='range'}}"
    ),
    "Adding newly assigned partitions: t-0",
)
_INTERNALS = "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator"


def a_round(client: str, generation: int, at: datetime | None = None, group: str = "g") -> bytes:
    """Return a rebalance, of now or another time: two transitions."""
    at = at or datetime.now().astimezone()
    stamp = f"{at:%Y-%m-%d %H:%M:%S,%f}"[:-3]
    return "".join(
        f"[{stamp}] INFO [Consumer clientId={client}, groupId={group}]"
        f" {text.format(client=client, generation=generation)} ({_INTERNALS})\n"
        for text in _ROUND
    ).encode()


class LoadedLog:
    """Fifty rebalances a second until it is left; a begun rebalance is written to its end."""

    def __init__(self, path: Path, seed: int = 12472, group: str = "g") -> None:
        self.path, self.rounds, self.group = path, 0, group
        self._chance, self._over = random.Random(seed), Event()
        self._thread = Thread(target=self._write, daemon=True)

    def transitions(self) -> Counter[tuple[str, int]]:
        """Return the expected transitions: a rise and an end for each written rebalance."""
        clients = [f"c{number % _CLIENTS}" for number in range(self.rounds)]
        return Counter((client, status) for client in clients for status in (2, 0))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _write(self) -> None:
        waiting = bytearray()
        with self.path.open("ab", buffering=0) as file:
            while not self._over.wait(_PAUSE_S):
                client, generation = f"c{self.rounds % _CLIENTS}", self.rounds // _CLIENTS + 1
                waiting += a_round(client, generation, group=self.group)
                self.rounds += 1
                size = self._chance.randrange(_PIECE_BYTES_MAX)
                file.write(waiting[:size])
                del waiting[:size]
            file.write(waiting)
