import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from starlette.responses import StreamingResponse

from agent.web.pages import live_events
from agent.web.pages.live_events import MAX_READERS, LiveEvents

DEADLINE_S = 90.0


async def following(stream: AsyncIterator[str]) -> str:
    async with asyncio.timeout(DEADLINE_S):
        return await anext(stream)


def streamed(events: LiveEvents, shown: str = "0") -> AsyncIterator[str]:
    response = events.respond(shown)
    assert isinstance(response, StreamingResponse)
    assert response.media_type == "text/event-stream"
    return response.body_iterator  # type: ignore[return-value]


@pytest.mark.parametrize("pulse_s", [3600.0, 0.0], ids=["new records", "time alone"])
def test_an_event_follows_a_change_or_a_while(
    monkeypatch: pytest.MonkeyPatch, pulse_s: float
) -> None:
    monkeypatch.setattr(live_events, "POLL_S", 0.01)
    monkeypatch.setattr(live_events, "PULSE_S", pulse_s)
    versions = [0]

    async def read() -> None:
        events = LiveEvents(lambda: versions[0])
        async with aclosing(streamed(events)) as stream:  # type: ignore[type-var]
            assert (await following(stream)).startswith("retry: ")
            versions[0] += bool(pulse_s)
            assert await following(stream) == "event: changed\ndata:\n\n"

    asyncio.run(read())


def test_all_readers_are_woken_and_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_events, "POLL_S", 0.01)
    monkeypatch.setattr(live_events, "PULSE_S", 0.0)

    async def read() -> None:
        events = LiveEvents(lambda: 0)
        streams = [streamed(events) for _ in range(MAX_READERS)]
        for stream in streams:
            await following(stream)
        assert events.respond("0").status_code == 503
        assert {await following(stream) for stream in streams} == {"event: changed\ndata:\n\n"}

        await streams[0].aclose()  # type: ignore[attr-defined]
        assert events.respond("0").status_code == 200
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]
        watching = [each for each in asyncio.all_tasks() if each.get_name() == "live-pages"]
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*watching)

    asyncio.run(read())


def test_a_page_that_is_behind_is_woken_at_once() -> None:
    async def read() -> None:
        async with aclosing(streamed(LiveEvents(lambda: 7), "6")) as stream:  # type: ignore[type-var]
            await following(stream)
            assert await following(stream) == "event: changed\ndata:\n\n"

    asyncio.run(read())
