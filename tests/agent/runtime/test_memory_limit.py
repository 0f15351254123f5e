import gc
import weakref

import pytest

from agent.runtime.memory_limit import MemoryLimit, release_free_memory, resident_bytes

MIB = 1 << 20


class Process:
    """A process of any size that records its calls."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self._size = 0
        self.free = 0
        self._limit = MemoryLimit(lambda: self._size, self._release)

    def at(self, *sizes: int) -> list[str]:
        """Check once with each size, of 100 allowed; return the calls."""
        self.got.clear()
        for self._size in sizes:
            self._limit.enforce(100, lambda: self.got.append("spare"), self._grow)
        return list(self.got)

    def start(self, size: int, free: int) -> int:
        """End a start at this size; return the size after it."""
        self._size, self.free = size, free
        self._limit.end_start(100)
        return self._size

    def _release(self) -> None:
        self._size, self.free = self._size - self.free, 0

    def _grow(self) -> None:
        self.got.append("grow")


def test_nothing_is_done_up_to_the_limit() -> None:
    assert Process().at(0, 99, 100) == []


def test_free_memory_is_returned_before_anything_shrinks() -> None:
    process = Process()
    process.free = 10

    assert process.at(105) == []
    assert process.at(105) == ["spare"]


@pytest.mark.parametrize(("size", "left"), [(60, 45), (20, 20)])
def test_what_a_start_has_freed_is_returned_once(size: int, left: int) -> None:
    process = Process()

    assert process.start(size, free=15) == left
    assert process.start(size, free=15) == size


def test_the_system_gets_free_memory_back() -> None:
    kept = [bytearray(60_000) for _ in range(2_000)]  # below the size that is mapped on its own
    last = bytearray(60_000)  # above them, so that the heap cannot end below
    kept.clear()
    before = resident_bytes()
    release_free_memory()

    assert before - resident_bytes() > 64 * MIB
    assert len(last) == 60_000


def test_it_is_held_once_and_again_only_as_it_grows_on() -> None:
    process = Process()

    assert process.at(101, 101, 103, 102) == ["spare"]
    assert process.at(104, 105, 106) == ["spare"]


def test_it_may_grow_again_once_it_is_clearly_below() -> None:
    process = Process()

    assert process.at(101, 100, 96, 95) == ["spare"]
    assert process.at(94, 94) == ["grow"]
    assert process.at(101) == ["spare"]


def test_both_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    Process().at(101, 101, 150, 94, 94)

    said = ["memory_limit", "memory_limit_restored"]
    assert [record.message for record in caplog.records] == said
    assert vars(caplog.records[0])["found_bytes"] == 101


def test_a_process_knows_what_it_has() -> None:
    before = resident_bytes()
    held = bytearray(b"x") * (64 * MIB)

    assert resident_bytes() - before > 48 * MIB
    assert len(held) == 64 * MIB


def test_cycles_that_are_released_are_freed() -> None:
    class Node:
        def __init__(self) -> None:
            self.own = self

    gc.disable()
    try:
        freed = weakref.ref(Node())
        assert freed() is not None

        release_free_memory()

        assert freed() is None
    finally:
        gc.enable()
