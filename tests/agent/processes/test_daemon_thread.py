"""Errors of calls in daemon threads are freed when they are handled."""

import asyncio
import gc
import weakref

from agent.processes.daemon_thread import call_in_daemon


class Frame:
    """Stands for a response of megabytes."""


def test_a_handled_error_keeps_nothing_of_its_call() -> None:
    """Each response that could not be decoded stayed in memory until a full collection."""
    kept = list[weakref.ref[Frame]]()

    def fail() -> None:
        frame = Frame()
        kept.append(weakref.ref(frame))
        raise ValueError(type(frame).__name__)

    async def play() -> str:
        try:
            await call_in_daemon(fail, "test")
        except ValueError as error:
            return str(error)
        return ""

    gc.disable()
    try:
        assert asyncio.run(play()) == "Frame"
        assert [each() for each in kept] == [None]
    finally:
        gc.enable()
