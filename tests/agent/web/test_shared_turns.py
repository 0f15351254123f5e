"""Turns: equal requests that wait share one, different ones are bounded in number and in time."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest

from agent.web import shared_turns
from agent.web.shared_turns import BusyError, SharedTurns


@dataclass
class Held:
    """Calls that end when a test allows it."""

    may_end: threading.Event = field(default_factory=threading.Event)
    prepared: list[str] = field(default_factory=list)

    def prepare(self, name: str) -> Callable[[], str]:
        self.prepared.append(name)

        def call() -> str:
            assert self.may_end.wait(60.0)
            return name

        return call


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_equal_requests_that_wait_share_a_turn_and_hold_no_input() -> None:
    held = Held()

    async def play() -> tuple[list[str], list[str]]:
        turns = SharedTurns("test")
        tasks = [
            asyncio.create_task(turns.run("a", partial(held.prepare, f"a{n}"))) for n in range(2)
        ]
        await settle()
        tasks += [
            asyncio.create_task(turns.run("a", lambda: held.prepare("late"))) for _ in range(50)
        ]
        await settle()
        while_it_runs = list(held.prepared)
        held.may_end.set()
        return while_it_runs, await asyncio.gather(*tasks)

    while_it_runs, got = asyncio.run(play())

    assert while_it_runs == ["a0"]
    assert held.prepared == ["a0", "late"]
    assert got == ["a0"] * 2 + ["late"] * 50


def test_different_requests_are_bounded_and_the_rest_is_refused_at_once() -> None:
    held = Held()

    async def play() -> list[str | BaseException]:
        turns = SharedTurns("test", max_turns=3)
        tasks = [asyncio.create_task(turns.run(n, partial(held.prepare, str(n)))) for n in range(5)]
        await settle()
        assert [task.done() for task in tasks] == [False] * 3 + [True] * 2
        held.may_end.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    *served, fourth, fifth = asyncio.run(play())

    assert served == ["0", "1", "2"]
    assert [type(each) for each in (fourth, fifth)] == [BusyError] * 2


def test_a_request_whose_turn_does_not_come_is_refused_and_the_next_one_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = Held()

    async def play() -> tuple[int, str]:
        turns = SharedTurns("test")
        first = asyncio.create_task(turns.run("first", lambda: held.prepare("first")))
        await settle()
        monkeypatch.setattr(shared_turns, "MAX_WAIT_S", 0.05)
        waiting = [turns.run("second", lambda: held.prepare("second")) for _ in range(9)]
        got = await asyncio.gather(*waiting, return_exceptions=True)
        assert not first.done()
        refused = sum(isinstance(each, BusyError) for each in got)
        held.may_end.set()
        assert await first == "first"
        return refused, await turns.run("second", lambda: held.prepare("third"))

    assert asyncio.run(play()) == (9, "third")
    assert held.prepared == ["first", "third"]


def test_a_failure_nobody_waits_for_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> Callable[[], None]:
        raise LookupError("nothing")

    async def play() -> None:
        turns = SharedTurns("test")
        waiting = asyncio.create_task(turns.run("a", fail))
        await asyncio.sleep(0)
        waiting.cancel()
        await settle()
        with pytest.raises(LookupError):
            await turns.run("a", fail)

    asyncio.run(play())

    assert caplog.records == []
