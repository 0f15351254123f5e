"""Pages that wait for their readers are bounded in bytes; those that waited longest end."""

import asyncio
import logging
from contextlib import AsyncExitStack

import pytest
from starlette.responses import Response

from agent.web import unsent_pages
from agent.web.unsent_pages import MEMORY_SHARE, READER_BYTES, Page, UnsentPages
from tests.agent.web.test_server import DEADLINE_S, Fake, row, served

_ROWS = tuple(row(f"{i:05d}" + "x" * 2000) for i in range(3000))
_REQUEST = b"GET %b HTTP/1.1\r\nHost: agent\r\n\r\n"


def _pages(limit_bytes: int) -> UnsentPages:
    return UnsentPages(limit_bytes * MEMORY_SHARE)


@pytest.mark.parametrize("path", [b"/metrics", b"/api/v1/members"])
def test_the_readers_that_have_waited_longest_lose_against_new_ones(
    path: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> tuple[list[bool], int]:
        whole: list[bool] = []
        async with AsyncExitStack() as stack:
            fake = Fake(_ROWS)
            [address] = await stack.enter_async_context(served(fake))
            readers, sizes = list[asyncio.StreamReader](), list[int]()
            for _ in range(4):
                reader, writer = await asyncio.open_connection(*address, limit=1 << 16)
                stack.callback(writer.close)
                writer.write(_REQUEST % path)
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), DEADLINE_S)
                sizes.append(int(head.lower().split(b"content-length: ")[1].split()[0]))
                fake.unsent._limit_bytes = 5 * sizes[0] // 2
                readers.append(reader)
            for reader, size in zip(readers, sizes, strict=True):
                try:
                    await asyncio.wait_for(reader.readexactly(size), DEADLINE_S)
                    whole.append(True)
                except (asyncio.IncompleteReadError, ConnectionError):
                    whole.append(False)
        return whole, sizes[0]

    whole, size = asyncio.run(play())

    assert whole == [False, False, True, True]
    logged = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert [each.getMessage() for each in logged] == ["slow_readers_cut"] * 2
    assert {(vars(each)["readers"], vars(each)["bytes"]) for each in logged} == {
        (1, size + READER_BYTES)
    }


async def _receive() -> dict[str, object]:
    raise AssertionError


async def _send_page(pages: UnsentPages, page: Page, may_end: asyncio.Event) -> bool:
    """Return whether the page was read to its end."""

    async def send(_message: object) -> None:
        await may_end.wait()

    try:
        await pages.respond(page)({"type": "http"}, _receive, send)
    except asyncio.CancelledError:
        return False
    return True


def test_readers_of_one_page_count_it_once_and_a_page_that_is_sent_counts_no_more() -> None:
    size = 10 * READER_BYTES
    pages = _pages(size + 5 * READER_BYTES)

    async def play() -> list[bool]:
        page, other = Page([bytes(size)], "text/plain"), Page([bytes(size // 2)], "text/plain")
        first, second = asyncio.Event(), asyncio.Event()
        shared = [asyncio.create_task(_send_page(pages, page, first)) for _ in range(5)]
        await asyncio.sleep(0)
        first.set()
        got = await asyncio.gather(*shared)
        shared = [asyncio.create_task(_send_page(pages, page, second)) for _ in range(5)]
        await asyncio.sleep(0)
        return [*got, await _send_page(pages, other, first), *await asyncio.gather(*shared)]

    assert asyncio.run(play()) == [True] * 6 + [False] * 5


def test_readers_of_one_page_are_bounded_by_their_own_buffers() -> None:
    """A hub has 4,096 connections, and all of them may share one page."""
    pages = _pages(10 * READER_BYTES)

    async def play() -> list[bool]:
        page, end = Page([b"short"], "text/plain"), asyncio.Event()
        readers = [asyncio.create_task(_send_page(pages, page, end)) for _ in range(100)]
        await asyncio.sleep(0)
        end.set()
        return await asyncio.gather(*readers)

    assert asyncio.run(play()) == [False] * 91 + [True] * 9


def test_when_memory_is_short_the_newest_page_is_left() -> None:
    pages = _pages(1 << 30)

    async def play() -> list[bool]:
        end, tasks = asyncio.Event(), list[asyncio.Task[bool]]()
        for content in (b"one", b"two", b"three"):
            page = Page([content], "text/plain")
            tasks += [asyncio.create_task(_send_page(pages, page, end)) for _ in range(2)]
            await asyncio.sleep(0)
        pages.shrink()
        pages.shrink()
        end.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(play()) == [False] * 4 + [True] * 2
    pages.shrink()


@pytest.mark.parametrize("memory", [0, 64 << 20, 1 << 30])
def test_the_bound_is_a_part_of_the_memory(memory: int) -> None:
    pages = UnsentPages(memory)
    at_most = min(unsent_pages.MAX_UNSENT_BYTES, memory // MEMORY_SHARE)

    async def play() -> bool:
        end = asyncio.Event()
        first = asyncio.create_task(
            _send_page(pages, Page([bytes(max(0, at_most - 2 * READER_BYTES))], "t"), end)
        )
        await asyncio.sleep(0)
        second = asyncio.create_task(_send_page(pages, Page([b"x"], "t"), end))
        await asyncio.sleep(0)
        end.set()
        assert await second
        return await first

    assert not asyncio.run(play())


@pytest.mark.parametrize("path", [b"/", b"/group?group=g", b"/incident?group=g&id=x"])
def test_pages_for_people_count_too(path: bytes) -> None:
    fake = Fake(_ROWS)
    held: list[int] = []

    class Counting(UnsentPages):
        def respond(self, page: Page) -> Response:
            held.append(sum(map(len, page.pieces)))
            return super().respond(page)

    fake.unsent = Counting()

    async def play() -> bytes:
        async with served(fake) as (address,):
            reader, writer = await asyncio.open_connection(*address, limit=1 << 20)
            writer.write(_REQUEST % path)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), DEADLINE_S)
            writer.close()
            return head

    head = asyncio.run(play())

    assert b"text/html" in head
    assert f"content-length: {held[0]}".encode() in head.lower()
