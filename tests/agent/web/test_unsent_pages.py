"""Pages that wait for their readers are bounded in bytes; those that waited longest end."""

import asyncio
import logging
from contextlib import AsyncExitStack

import pytest

from agent.web import unsent_pages
from agent.web.unsent_pages import Page, UnsentPages
from tests.agent.web.test_server import DEADLINE_S, Fake, row, served

_ROWS = tuple(row(f"{i:05d}" + "x" * 2000) for i in range(3000))
_REQUEST = b"GET %b HTTP/1.1\r\nHost: agent\r\n\r\n"


@pytest.mark.parametrize("path", [b"/metrics", b"/api/v1/members"])
def test_the_readers_that_have_waited_longest_lose_against_new_ones(
    path: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> tuple[list[bool], int]:
        whole: list[bool] = []
        async with AsyncExitStack() as stack:
            [address] = await stack.enter_async_context(served(Fake(_ROWS)))
            readers, sizes = list[asyncio.StreamReader](), list[int]()
            for _ in range(4):
                reader, writer = await asyncio.open_connection(*address, limit=1 << 16)
                stack.callback(writer.close)
                writer.write(_REQUEST % path)
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), DEADLINE_S)
                sizes.append(int(head.lower().split(b"content-length: ")[1].split()[0]))
                monkeypatch.setattr(unsent_pages, "MAX_UNSENT_BYTES", 5 * sizes[0] // 2)
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
    assert {(vars(each)["readers"], vars(each)["bytes"]) for each in logged} == {(1, size)}


def test_readers_of_one_page_count_once_and_a_page_that_is_sent_counts_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unsent_pages, "MAX_UNSENT_BYTES", 10)
    pages = UnsentPages()

    async def receive() -> dict[str, object]:
        raise AssertionError

    async def send_page(page: Page, may_end: asyncio.Event) -> bool:
        async def send(_message: object) -> None:
            await may_end.wait()

        try:
            await pages.respond(page)({"type": "http"}, receive, send)
        except asyncio.CancelledError:
            return False
        return True

    async def play() -> list[bool]:
        page, other = Page([b"123456"], "text/plain"), Page([b"12345"], "text/plain")
        first, second = asyncio.Event(), asyncio.Event()
        shared = [asyncio.create_task(send_page(page, first)) for _ in range(9)]
        await asyncio.sleep(0)
        first.set()
        got = await asyncio.gather(*shared)
        shared = [asyncio.create_task(send_page(page, second)) for _ in range(2)]
        await asyncio.sleep(0)
        return [*got, await send_page(other, first), *await asyncio.gather(*shared)]

    assert asyncio.run(play()) == [True] * 10 + [False] * 2
