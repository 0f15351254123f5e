import asyncio
from pathlib import Path

import httpx
import pytest

from agent.config.web import WebConfig
from agent.web import server as http_server
from agent.web.rate_limit import RateLimit
from tests.agent.web.test_security import Place, Served, play
from tests.agent.web.test_server import Fake


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_bucket_fills_evenly_and_no_higher_than_its_rim() -> None:
    now = 0.0
    limit = RateLimit(0.5, 2, lambda: now)

    assert [limit.take_or_wait_s() for _ in range(3)] == [0.0, 0.0, 0.5]
    now = 0.25
    assert limit.take_or_wait_s() == 0.25
    now = 0.5
    assert [limit.take_or_wait_s(), limit.take_or_wait_s()] == [0.0, 0.5]
    now = 1000.0
    assert [limit.take_or_wait_s() for _ in range(3)] == [0.0, 0.0, 0.5]


def test_a_flood_of_pages_is_refused_and_health_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "INTERVAL_S", 3600.0)
    monkeypatch.setattr(http_server, "BURST", 2)
    app = http_server.make_app(WebConfig(), 1000, Fake().answers)

    async def flood(path: str) -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
            return [await client.get(path) for _ in range(3)]

    pages, healthy = asyncio.run(flood("/api/v1/sources")), asyncio.run(flood("/-/healthy"))
    assert [each.status_code for each in pages] == [200, 200, 429]
    assert 0 < int(pages[-1].headers["retry-after"]) <= 3600
    assert [each.status_code for each in healthy] == [200, 200, 200]


def test_the_web_configuration_limits_everything_before_passwords(place: Place) -> None:
    async def scenario(server: Served) -> None:
        codes = [(await server.get("/-/healthy")).status_code for _ in range(3)]
        assert codes == [200, 200, 429]

    place.file.write_text("rate_limit: {interval: 1h, burst: 2}\n")
    play(place, scenario)
