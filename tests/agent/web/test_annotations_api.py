"""``POST /api/v1/annotations``."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from agent.web.annotations_api import BURST, MAX_BYTES, read_annotation, routes
from agent.web.reload_auth import ANNOTATIONS, ReloadPolicy
from metrics.model.sample import Sample, SampleKind, decode, encode

NOW = 1_775_000_000.0


class Web:
    """Posts annotations, and keeps the records."""

    def __init__(self, policy: ReloadPolicy | None = None) -> None:
        self.taken: list[Sample] = []

        def refusal(request: Request) -> Response | None:
            return None if policy is None else policy.refusal(request)

        self.app = Starlette(routes=routes(self.taken.extend, lambda: "prod", refusal, lambda: NOW))

    def post(self, **given: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
                return await client.post(ANNOTATIONS, **given)

        return asyncio.run(send())


def test_marker_is_a_record_of_its_time_and_group() -> None:
    web = Web()
    body = {"text": "release 7", "at": "2026-03-12T10:00:00+01:00", "group": "payments"}
    answer = web.post(json=body)
    (record,) = web.taken
    assert (answer.status_code, answer.json()) == (202, {"accepted": 1, "id": record.id})
    assert (record.kind, record.ts) == (SampleKind.ANNOTATION, "2026-03-12T09:00:00.000000Z")
    assert (record.cluster, record.group, record.reason) == ("prod", "payments", "release 7")
    assert decode(encode(record)) == record


def test_only_who_may_reload_may_post(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    assert Web(ReloadPolicy()).post(json={"text": "x"}).status_code == 403
    web = Web(ReloadPolicy(token))
    assert web.post(json={"text": "x"}).status_code == 401
    assert web.post(json={"text": "x"}, headers={"authorization": "Bearer secret"}).is_success
    assert len(web.taken) == 1


def test_marker_that_is_posted_twice_has_one_id() -> None:
    body = b'{"text": "release 7", "at": "2026-03-12T10:00:00Z"}'
    assert read_annotation(body, "prod", NOW).id == read_annotation(body, "prod", NOW + 5).id
    assert read_annotation(b'{"text": "x"}', "prod", NOW).ts == "2026-03-31T23:33:20.000000Z"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "no annotation"),
        (b"[]", "no annotation"),
        (b'{"text": 5}', "no annotation"),
        (b'{"text": "x", "colour": "red"}', "unknown field `colour`"),
        (b'{"text": "  "}', "text is empty"),
        (b'{"text": "x", "at": "today"}', "is no time, as 2026-11-20T06:30:00Z is"),
        (b'{"text": "x", "at": "2026-03-12T10:00:00"}', "no zone"),
        (b'{"text": "x", "group": "%s"}' % (b"g" * 300), "longer than 255"),
        (b"[" * 5000, "no annotation"),
        (b'{"text": ' + b"[" * 5000, "no annotation"),
        (b'{"text": "\\ud800"}', "no annotation"),
        (b'{"text": "x", "at": "2026-04-02T23:33:21Z"}', "up to tomorrow"),
        (b'{"text": "x", "at": "9999-12-31T23:59:59-14:00"}', "up to tomorrow"),
        (b'{"text": "x", "at": "1970-01-01T00:00:00Z"}', "up to tomorrow"),
        (b'{"text": "x", "at": "0001-01-01T00:00:00+14:00"}', "up to tomorrow"),
    ],
)
def test_other_bodies_are_refused_with_a_reason(body: bytes, said: str) -> None:
    web = Web()
    answer = web.post(content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert said in answer.json()["error"]
    assert web.taken == []


def test_large_bodies_forms_and_floods_are_refused() -> None:
    web = Web()
    assert web.post(json={"text": "x" * MAX_BYTES}).status_code == 413
    assert web.post(data={"text": "x"}).status_code == 415
    codes = [web.post(json={"text": str(n)}).status_code for n in range(BURST + 20)]
    assert 429 in codes
    assert len(web.taken) == codes.count(202)
