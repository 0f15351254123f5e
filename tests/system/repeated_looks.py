"""A thread that looks again and again while a test lets something happen."""

from collections.abc import Callable
from threading import Event, Thread
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class RepeatedLooks(Generic[T]):
    """Looks at a pace, until it is left; a look that fails is a fault and ends nothing."""

    def __init__(self, look: Callable[[], T], pause_s: float) -> None:
        """``look`` makes one look; ``pause_s`` is the time between two looks."""
        self._look, self._pause_s = look, pause_s
        self.looks: list[T] = []
        self.faults: list[str] = []
        self._stopped = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.looks.append(self._look())
            except Exception as error:  # noqa: BLE001 - the test shows it
                self.faults.append(repr(error))
            self._stopped.wait(self._pause_s)
