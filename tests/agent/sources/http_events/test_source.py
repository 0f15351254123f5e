import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette

from agent.errors import ConfigError
from agent.sources.http_events import source as module
from agent.sources.http_events.config import HttpConfig
from agent.sources.http_events.events import EventError, read_events
from agent.sources.http_events.source import ALIVE_S, HttpSource
from agent.sources.statistics import interpreter as librdkafka_stats_view
from agent.web import events_api
from metrics.model.signals import Signal, SourceKind

_NOW = 1_795_000_000.0
_EVENTS, _STATS = "/api/v1/events", "/api/v1/stats"


class Bench:
    """A running source behind its routes, with a clock that only the test moves."""

    def __init__(self, sender: str = "127.0.0.1", **config: Any) -> None:
        self.now = _NOW
        self.signals: list[Signal] = []
        self.gone: list[str] = []
        self.source = HttpSource(
            HttpConfig(**config), clock=lambda: self.now, monotonic=lambda: self.now
        )
        app = Starlette(routes=events_api.routes(lambda: self.source))
        self._transport = httpx.ASGITransport(app, client=(sender, 1234))
        self.source._emit = self._emit

    def post(self, *events: Any, path: str = _EVENTS, token: str | None = None) -> tuple[int, Any]:
        answer = self.answer(*events, path=path, token=token)
        return answer.status_code, answer.json()

    def answer(self, *events: Any, path: str = _EVENTS, token: str | None = None) -> httpx.Response:
        lines = [e if isinstance(e, bytes) else json.dumps(e).encode() for e in events]
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return asyncio.run(post(self._transport, path, b"\n".join(lines), headers))

    def tick(self) -> None:
        self.source.tick(lambda stream, _: self.gone.append(stream))

    def _emit(self, signals: Sequence[Signal]) -> None:
        self.signals += signals


async def post(
    transport: httpx.ASGITransport, path: str, body: bytes, headers: dict[str, str]
) -> httpx.Response:
    async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
        return await client.post(path, content=body, headers=headers)


def event(kind: str, **more: object) -> dict[str, object]:
    return {"event": kind, "group": "g", "client_id": "m1"} | more


def got(signals: Sequence[Signal]) -> list[tuple[str, int]]:
    return [(s.kind.value, int(s.status)) for s in signals]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_an_event_carries_all_that_its_sender_knows(bench: Bench) -> None:
    full = event(
        "assigned",
        ts="2026-11-19T11:06:39.500+00:00",
        process="pod-7:12:1",
        member_id="m1-uuid",
        group_instance_id="i1",
        generation=7,
        host="pod-7",
        library="kafka-python",
        partitions=["t-0"],
        newer_than_we_are=True,
    )

    assert bench.post(full) == (202, {"accepted": 1})

    (signal,) = bench.signals
    member = signal.member
    assert (member.group, member.client_id, member.member_id) == ("g", "m1", "m1-uuid")
    assert (member.origin, member.group_instance_id) == ("http:pod-7:12:1", "i1")
    assert (member.host, member.software) == ("pod-7", "kafka-python")
    assert (signal.source, signal.generation) == (SourceKind.HTTP, 7)
    assert signal.at == 1_795_086_399.5


def test_what_an_event_leaves_out_is_the_arrivals(bench: Bench) -> None:
    bench.post(event("assigned"))

    (signal,) = bench.signals
    assert (signal.at, signal.member.host) == (_NOW, "127.0.0.1")
    assert signal.member.origin == "http:127.0.0.1"


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        (event("assigned"), ("sync", 0)),
        (event("closed"), ("leave", 0)),
        (event("alive"), ("seen", 0)),
        (event("revoked"), ("join", 0)),
        (event("lost"), ("join", 0)),
        (event("lost", code="ILLEGAL_GENERATION"), ("raise", 4)),
        (event("revoked", code="REBALANCE_IN_PROGRESS"), ("raise", 1)),
        (event("revoked", protocol="cooperative", partitions=["t-0"]), ("raise", 10)),
        (event("revoked", protocol="cooperative", partitions=[]), ("join", 0)),
        (event("error", code="_MAX_POLL_EXCEEDED"), ("raise", 5)),
        (event("error", code="UNKNOWN_MEMBER_ID"), ("raise", 3)),
        (event("error", code="FENCED_INSTANCE_ID"), ("fail", 0)),
        (event("error", code="_PARTITION_EOF"), ("note", 0)),
    ],
)
def test_what_an_event_means(
    bench: Bench, sent: dict[str, object], wanted: tuple[str, int]
) -> None:
    bench.post(sent)

    assert got(bench.signals) == [wanted]


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"{", "line 2: Input data was truncated"),
        (b"\xff", "line 2: JSON is malformed"),
        (b"[]", "line 2: Expected `object`, got `array`"),
        ({"event": "assigned", "group": "g"}, "line 2: Object missing required field `client_id`"),
        (event("assign"), "line 2: event: Invalid enum value 'assign'"),
        (event("assigned", group=7), "line 2: group: Expected `str`, got `int`"),
        (event("assigned", group=""), "line 2: group: Expected `str` of length >= 1"),
        (event("assigned", generation=1 << 31), "line 2: generation: Expected `int` <= 2147483647"),
        (event("assigned", generation=-2), "line 2: generation: Expected `int` >= -1"),
        (event("assigned", ts="noon"), "line 2: ts: Invalid RFC3339 encoded datetime"),
        (event("assigned", ts="2026-11-19T11:06:39"), "line 2: ts: Expected `datetime` with a "),
        (event("assigned", ts="2036-11-19T11:06:39Z"), "line 2: ts: found 2036-11-19T11:06:39+00"),
        (event("assigned", partitions=[1]), "line 2: partitions[0]: Expected `str`, got `int`"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_of_the_body_counts(
    bench: Bench, sent: Any, said: str
) -> None:
    status, answer = bench.post(event("assigned"), sent)

    assert (status, answer["error"][: len(said)]) == (400, said)
    assert bench.signals == []
    assert (bench.source.health.unparsed, bench.source.health.errors) == (1, {"malformed": 1})


def test_a_token_is_read_anew_for_each_body(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    bench = Bench(sender="10.0.0.7", token_file=file)

    assert bench.post(event("assigned"), token="first")[0] == 202
    file.write_text("second\n")
    assert bench.post(event("assigned"), token="first")[0] == 401
    assert bench.post(event("assigned"), token="second")[0] == 202
    assert bench.post(event("assigned"))[0] == 401
    assert bench.source.health.errors == {"unauthorized": 2}


def test_an_unreadable_or_empty_token_lets_nobody_in(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")

    assert Bench(token_file=tmp_path / "none").post(event("assigned"), token="x")[0] == 503
    assert Bench(token_file=tmp_path / "empty").post(event("assigned"), token="")[0] == 401


@pytest.mark.parametrize(
    ("sender", "status"),
    [("127.0.0.1", 202), ("::1", 202), ("::ffff:127.0.0.1", 202), ("10.0.0.7", 401), ("?", 401)],
)
def test_without_a_token_only_this_machine_may_post(sender: str, status: int) -> None:
    assert Bench(sender=sender).post(event("assigned"))[0] == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "application/json; charset=utf-8"}, 202),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Origin": "http://other.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:12472", "Host": "127.0.0.1:12472"}, 202),
        ({"Origin": "http://localhost:1", "Host": "localhost:1"}, 202),
        ({"Origin": "http://[::1]:1", "Host": "[::1]:1"}, 202),
        ({"Origin": "http://localhost:2", "Host": "localhost:1"}, 403),
        ({"Origin": "http://leads-here.example", "Host": "leads-here.example"}, 403),
        ({"Origin": "http://[", "Host": "["}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 202),
        ({"X-Forwarded-For": "127.0.0.1"}, 401),
        ({"Forwarded": "for=127.0.0.1"}, 401),
    ],
)
def test_without_a_token_no_page_of_another_site_posts(
    headers: dict[str, str], status: int, tmp_path: Path
) -> None:
    bench = Bench()
    body = json.dumps(event("assigned")).encode()

    assert asyncio.run(post(bench._transport, _EVENTS, body, headers)).status_code == status
    assert bool(bench.signals) == (status == 202)
    assert bench.source.health.errors == ({} if status == 202 else {"unauthorized": 1})
    (tmp_path / "token").write_text("secret")
    headers |= {"Authorization": "Bearer secret"}
    bench = Bench(token_file=tmp_path / "token")
    assert asyncio.run(post(bench._transport, _EVENTS, body, headers)).status_code == 202


def test_a_large_body_is_refused() -> None:
    bench = Bench(max_bytes=1_000)

    status, answer = bench.post(event("assigned", reason="x" * 1_000))

    assert (status, answer) == (413, {"error": "wanted 1000 bytes at most"})
    assert bench.source.health.errors == {"too_large": 1}


def test_who_comes_too_fast_is_told_when_to_come_again() -> None:
    bench = Bench(max_lines_per_second=1)
    ten = [event("assigned")] * 10
    assert bench.post(*ten)[0] == 202

    refused = bench.answer(event("assigned"))

    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    bench.now += 1
    assert bench.post(event("assigned"))[0] == 202


def test_a_source_that_does_not_run_takes_nothing(bench: Bench) -> None:
    bench.source._emit = None

    assert bench.post(event("assigned"))[0] == 503


def test_without_a_source_there_is_nothing_to_post_to() -> None:
    transport = httpx.ASGITransport(Starlette(routes=events_api.routes(lambda: None)))

    answer = asyncio.run(post(transport, _EVENTS, b"", {}))

    assert (answer.status_code, answer.json()["error"]) == (
        404,
        "no source of type http is configured",
    )


def test_who_said_that_it_lives_and_falls_silent_has_gone(bench: Bench) -> None:
    bench.post(event("alive", process="a"), event("assigned", process="b"))
    bench.now += ALIVE_S - 1
    bench.post(event("assigned", process="a"))
    bench.now += 1
    bench.tick()
    assert bench.gone == []

    bench.now += ALIVE_S
    bench.tick()

    assert bench.gone == ["http:a"]


def _stats(**more: object) -> dict[str, object]:
    cgrp = {"join_state": "steady", "rebalance_age": 0, "rebalance_cnt": 1}
    head = {"name": "m1#consumer-1", "client_id": "m1", "ts": 1, "time": int(_NOW), "cgrp": cgrp}
    return head | more


def test_statistics_are_taken_too(bench: Bench) -> None:
    assert bench.post(_stats(), path=f"{_STATS}?group=g") == (202, {"accepted": 1})

    (signal,) = bench.signals
    assert (signal.source, signal.member.group) == (SourceKind.STATS, "g")


@pytest.mark.parametrize(
    ("sent", "said"),
    [(b"{", "1 lines are no librdkafka statistics"), (_stats(), "group: is missing, wanted")],
)
def test_statistics_that_say_nothing_are_refused(bench: Bench, sent: Any, said: str) -> None:
    status, answer = bench.post(sent, path=_STATS)

    assert (status, answer["error"][: len(said)]) == (400, said)


def test_posted_statistics_tell_who_is_silent_and_who_has_gone(bench: Bench) -> None:
    for second in range(2):
        at = {"ts": 1 + second * 1_000_000, "time": int(_NOW) + second}
        busy = {"join_state": "wait-join", "rebalance_age": 0, "rebalance_cnt": 1}
        bench.post(_stats(cgrp=busy, **at), path=f"{_STATS}?group=g")
    bench.signals.clear()

    bench.now += 10
    bench.tick()
    assert got(bench.signals) == [("note", 0)]
    bench.now += 300
    bench.tick()

    assert bench.gone == ["stats:127.0.0.1#m1#consumer-1"]


def test_members_that_are_too_many_have_gone_and_are_counted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(librdkafka_stats_view, "_CLIENT_LIMIT", 2)
    monkeypatch.setattr(module, "_SENDER_LIMIT", 1)
    monkeypatch.setattr(module, "_ALIVE_LIMIT", 1)
    many = [_stats(name=name, client_id=name) for name in ("a", "b", "c")]

    bench.post(*many, path=f"{_STATS}?group=g")
    bench.post(_stats(name="d"), path=f"{_STATS}?group=other")
    bench.post(event("alive", process="e"), event("alive", process="f"))
    bench.tick()

    assert sorted(bench.gone) == ["http:e", *(f"stats:127.0.0.1#{name}" for name in "abc")]
    assert bench.source.health.errors == {"member_evicted": 4}


def test_a_running_source_is_up_until_it_is_cancelled() -> None:
    source = HttpSource(HttpConfig())

    async def run() -> bool:
        running = asyncio.create_task(source.run(lambda _: None, lambda *_: None))
        await asyncio.sleep(0)
        was_up = source.health.up
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return was_up

    assert (asyncio.run(run()), source.health.up) == (True, False)
    assert (source.checkpoint(), source.watermark(5.0)) == ({"alive": []}, 5.0)


def test_who_was_alive_before_a_restart_and_is_silent_now_has_gone(bench: Bench) -> None:
    bench.post(event("alive", process="a"), event("assigned", process="b"))
    now, gone = [bench.now], list[str]()
    source = HttpSource(HttpConfig(), position=bench.source.checkpoint(), clock=lambda: now[0])

    now[0] += ALIVE_S
    source.tick(lambda origin, _: gone.append(origin))

    assert gone == ["http:a"]


@given(st.binary())
def test_any_body_is_read_or_refused_with_a_sentence(body: bytes) -> None:
    said = "line "
    try:
        read_events(body, _NOW)
    except EventError as error:
        said = str(error)
    assert said.startswith("line ")


@pytest.mark.parametrize(
    ("config", "said"), [({"max_bytes": 0}, "max_bytes"), ({"max_lines_per_second": 0}, "max_l")]
)
def test_a_limit_of_nothing_is_a_mistake(config: dict[str, int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        HttpConfig(**config)  # type: ignore[arg-type]
