"""Bodies of requests: bounded in bytes and seconds, and those that stop lose against new ones."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
from starlette.requests import Request

from agent import request_bodies
from agent.request_bodies import BodyError, RequestBodies

_PIECE = b"x" * 1_000


def request(pieces: int, pause: asyncio.Event | None = None) -> Request:
    """Return a request that sends pieces, then waits for ``pause`` if there is one, then ends."""
    messages = messages_of(pieces, pause)
    return Request({"type": "http", "method": "POST", "headers": []}, messages.__anext__)


async def messages_of(pieces: int, pause: asyncio.Event | None) -> AsyncIterator[dict[str, object]]:
    for _ in range(pieces):
        yield {"type": "http.request", "body": _PIECE, "more_body": True}
        await asyncio.sleep(0)
    if pause is not None:
        await pause.wait()
    yield {"type": "http.request", "body": b"", "more_body": False}


async def status_of(reading: asyncio.Task[bytes]) -> int:
    try:
        return len(await reading)
    except BodyError as error:
        return error.status


def test_a_body_comes_whole() -> None:
    assert asyncio.run(RequestBodies().read(request(3), 3_000)) == 3 * _PIECE


def test_a_larger_body_is_refused() -> None:
    with pytest.raises(BodyError, match="wanted 2999 bytes or less"):
        asyncio.run(RequestBodies().read(request(3), 2_999))


def test_a_body_that_stops_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_bodies, "BODY_TIMEOUT_S", 0.05)

    async def play() -> int:
        bodies = RequestBodies()
        return await status_of(
            asyncio.ensure_future(bodies.read(request(1, asyncio.Event()), 1_000))
        )

    assert asyncio.run(play()) == 408


def test_beyond_their_sum_those_that_stopped_end_and_new_ones_come_whole() -> None:
    """A hub of 256 MiB took 650 MiB from 150 peers that sent most of a batch and stopped."""

    async def play() -> tuple[list[int], list[int]]:
        bodies, never = RequestBodies(limit_bytes=10_000), asyncio.Event()
        stopped = [asyncio.ensure_future(bodies.read(request(4, never), 5_000)) for _ in range(20)]
        for ended in itertools.islice(asyncio.as_completed(stopped), 18):
            with pytest.raises(BodyError):
                await ended
        later = [asyncio.ensure_future(bodies.read(request(4), 5_000)) for _ in range(2)]
        came = [await status_of(each) for each in later]
        never.set()
        return came, [await status_of(each) for each in stopped]

    came, ended = asyncio.run(play())
    assert came == [4_000, 4_000]
    assert ended.count(408) >= 18


def test_a_body_of_the_largest_size_has_room_whatever_the_sum() -> None:
    assert len(asyncio.run(RequestBodies(limit_bytes=10).read(request(3), 3_000))) == 3_000
