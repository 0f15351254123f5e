import asyncio
import contextlib
import gc
import logging
import re
import socket
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from agent.config.web import WebConfig
from agent.errors import ConfigError, SourceError
from agent.web import http_protocol as http_connection
from agent.web.pages.overview import PAGE_ROWS
from agent.web.server import MAX_CONNECTIONS, ServerDependencies, listen, make_app, serve
from agent.web.unsent_pages import UnsentPages
from metrics.exporters.exposition import AgentStats, FileStats, SourceStats
from metrics.model.snapshot import MemberRow, Snapshot, StatusCounts
from metrics.model.status import RebalanceStatus as Status
from tests.aggregation.live.test_live import INSPECTED

DEADLINE_S = 90.0


@dataclass
class Fake:
    """The server's data sources, with values that a test sets."""

    rows: tuple[MemberRow, ...] = ()
    waiting: list[str] = field(default_factory=list)
    reloads: int = 0
    wrong: str | None = None
    unsent: UnsentPages = field(default_factory=UnsentPages)

    def snapshot(self) -> tuple[Snapshot, AgentStats]:
        source = SourceStats(
            name="logs",
            type="logs",
            up=True,
            members=2,
            read_bytes=2048,
            signals=7,
            unparsed=1,
            lag_s=0.25,
            errors={"<b>": 3},
        )
        stats = AgentStats(version="0.1.0", python_version="3.11.0", sources=(source,))
        return Snapshot(at=1.0, consumers=self.rows), stats

    def waiting_for(self) -> Sequence[str]:
        return self.waiting

    async def reload(self) -> None:
        if self.wrong:
            raise ConfigError(self.wrong)
        self.reloads += 1

    @property
    def answers(self) -> ServerDependencies:
        return ServerDependencies(
            snapshot=self.snapshot,
            sources_not_ready=self.waiting_for,
            reload=self.reload,
            unsent=self.unsent,
        )


@dataclass
class Inspecting(Fake):
    """One that knows a group by its coordinator alone."""

    def snapshot(self) -> tuple[Snapshot, AgentStats]:
        snapshot, stats = Fake.snapshot(self)
        return replace(snapshot, inspected=(replace(INSPECTED, group="told"),)), stats


def row(client_id: str, reason: str | None = None) -> MemberRow:
    return MemberRow(
        cluster="",
        app="a",
        group="g",
        group_type="classic",
        client_id=client_id,
        host="h",
        status=Status.NEW_MEMBER,
        peak=Status.NEW_MEMBER,
        since_at=0.0,
        reason=reason,
        counts=StatusCounts({}, {}, {}),
    )


def ask(
    fake: Fake, method: str, path: str, token_file: Path | None = None, **headers: str
) -> httpx.Response:
    async def request() -> httpx.Response:
        config = WebConfig(telemetry_path="/m", token_file=token_file)
        app = make_app(config, 1000, fake.answers)
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
            raw = [(name.encode(), value.encode()) for name, value in headers.items()]
            return await client.request(method, path, headers=raw)

    return asyncio.run(request())


def test_metrics_are_at_the_telemetry_path() -> None:
    answer = ask(Fake((row("c1"),)), "GET", "/m")

    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'kafka_consumer_rebalance_status{app="a",client_id="c1",' in answer.text


@dataclass
class Looking(Fake):
    """One that sees whether memory may be searched while it is asked."""

    collects: list[bool] = field(default_factory=list)
    fails: bool = False

    def snapshot(self) -> tuple[Snapshot, AgentStats]:
        self.collects.append(gc.isenabled())
        if self.fails:
            raise SourceError("no answer")
        return Fake.snapshot(self)


@pytest.mark.parametrize("fails", [False, True])
def test_memory_is_not_searched_while_a_page_is_made(fails: bool) -> None:
    fake = Looking((row("c1"),), fails=fails)

    with pytest.raises(SourceError) if fails else contextlib.nullcontext():
        ask(fake, "GET", "/m")

    assert fake.collects == [False]
    assert gc.isenabled()


def test_openmetrics_is_negotiated() -> None:
    answer = ask(Fake(), "GET", "/m", Accept="application/openmetrics-text;version=1.0.0")

    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith("# EOF\n")


def test_ready_waits_for_every_source() -> None:
    waiting = ask(Fake(waiting=["logs", "logs-2"]), "GET", "/-/ready")
    ready = ask(Fake(), "GET", "/-/ready")

    assert (waiting.status_code, waiting.text) == (503, "waiting for logs, logs-2\n")
    assert ready.status_code == 200


@dataclass
class Blind(Fake):
    """One with a source that reads a log and sees nobody."""

    def snapshot(self) -> tuple[Snapshot, AgentStats]:
        snapshot, stats = Fake.snapshot(self)
        blind = FileStats(
            path="/log/blind.log",
            read_bytes=9 << 20,
            client_lines=40,
            signals=0,
            members=0,
            is_blind=True,
        )
        files = (replace(blind, path="/log/<good>.log", members=3, is_blind=False), blind)
        source = replace(stats.sources[0], name="logs:/log/*.log", members=0, files=files)
        return snapshot, replace(stats, sources=(*stats.sources, source))


@dataclass
class HalfBlind(Blind):
    """One with a source that sees the members of one file alone."""

    def snapshot(self) -> tuple[Snapshot, AgentStats]:
        snapshot, stats = Blind.snapshot(self)
        *others, source = stats.sources
        return snapshot, replace(stats, sources=(*others, replace(source, members=3)))


def test_blind_file_beside_a_good_one_is_not_ready_where_members_are_wanted() -> None:
    without = ask(HalfBlind(), "GET", "/-/ready?members")

    assert (without.status_code, without.text) == (503, "no member in /log/blind.log\n")


def test_ready_waits_for_members_where_it_is_wanted() -> None:
    without = ask(Blind(), "GET", "/-/ready?members")

    assert ask(Blind(), "GET", "/-/ready").status_code == 200
    assert (without.status_code, without.text) == (503, "no member in logs:/log/*.log\n")
    assert ask(Fake(), "GET", "/-/ready?members").status_code == 200


class WithoutGroup(Blind):
    """A fake with a source whose file has only consumers without a group."""

    def snapshot(self) -> tuple[Snapshot, AgentStats]:
        snapshot, stats = Blind.snapshot(self)
        *others, source = stats.sources
        file = replace((source.files or ())[-1], is_blind=False, has_no_group=True)
        return snapshot, replace(stats, sources=(*others, replace(source, files=(file,))))


def test_source_without_a_group_is_ready_and_its_page_names_it() -> None:
    assert ask(WithoutGroup(), "GET", "/-/ready?members").status_code == 200
    assert "no group" in ask(WithoutGroup(), "GET", "/").text


def test_page_shows_each_file_and_blind_ones_first() -> None:
    text = ask(Blind(), "GET", "/").text

    assert text.index("/log/blind.log") < text.index("/log/&lt;good&gt;.log")
    assert text.count("no member") == 1


def test_healthy_does_not_wait() -> None:
    assert ask(Fake(waiting=["logs"]), "GET", "/-/healthy").status_code == 200


def test_reading_is_all_that_is_allowed_by_default() -> None:
    fake = Fake()

    answer = ask(fake, "POST", "/-/reload")

    assert (answer.status_code, fake.reloads) == (403, 0)
    assert "web.token_file" in answer.text


def reloaded(fake: Fake, token_file: Path, shown: str, method: str = "POST") -> httpx.Response:
    return ask(fake, method, "/-/reload", token_file, authorization=shown)


@pytest.mark.parametrize("shown", ["", "Bearer", "Bearer wrong", "Basic dG9r", "Bearer tök"])
def test_who_shows_no_token_reloads_nothing(shown: str, tmp_path: Path) -> None:
    fake, token = Fake(), tmp_path / "token"
    for held in ("tok\n", "", None):
        if held is None:
            token.unlink()
        else:
            token.write_text(held)
        assert reloaded(fake, token, shown).status_code in {401, 500}
    assert fake.reloads == 0


def test_a_token_reloads_and_is_read_each_time(tmp_path: Path) -> None:
    fake, token = Fake(), tmp_path / "token"
    token.write_text("first\n")
    first = reloaded(fake, token, "Bearer first").status_code
    token.write_text("second\n")
    second = [reloaded(fake, token, f"bearer {each}").status_code for each in ("first", "second")]

    assert (first, second, fake.reloads) == (200, [401, 200], 2)
    assert reloaded(fake, token, "Bearer second", "GET").status_code == 405


def test_a_failed_reload_says_why(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    fake = Fake(wrong="agent.yaml: line 1: no YAML")

    answer = reloaded(fake, tmp_path / "token", "Bearer t")

    assert (answer.status_code, answer.text) == (500, "agent.yaml: line 1: no YAML\n")


def test_the_page_escapes_what_comes_from_outside() -> None:
    page = ask(Fake((row("<script>alert(1)</script>", '"><img src=x>'),)), "GET", "/group?group=g")

    assert page.text.count("<script") == page.text.count('<script src="static/') == 1
    assert "<img" not in page.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
    assert "2 NewMember" in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")


def test_the_page_shows_what_cannot_be_seen() -> None:
    page = ask(Fake((row("a\x1b[31m\u202eb\n\ud800"),)), "GET", "/group?group=g").text

    assert "a\\x1b[31m\\u202eb\\n\\ud800" in page


def test_group_that_only_its_coordinator_tells_of_is_on_the_page() -> None:
    page = ask(Inspecting((row("c1"),)), "GET", "/").text

    rows = dict(re.findall(r"group=(\w+)[^>]*>\1</a>(.*?)</tr>", page, re.DOTALL))

    assert "No source asks the coordinator." in rows["g"]
    assert all(f">{text}</td>" in rows["told"] for text in ("Stable", "2"))
    assert "classic · k" in rows["told"]


@pytest.mark.parametrize("path", ["/", "/m", "/group?group=g", "/api/v1/groups", "/api/v1/sources"])
def test_what_moves_is_looked_at_where_it_moves(path: str) -> None:
    """In the event loop, as its changes are: a read in another thread failed, or took long."""
    looked_in = set[int]()

    class Moving(Fake):
        def snapshot(self) -> tuple[Snapshot, AgentStats]:
            looked_in.add(threading.get_ident())
            return Fake.snapshot(self)

    assert ask(Moving((row("c1"),)), "GET", path).status_code == 200
    assert looked_in == {threading.get_ident()}


def test_the_page_and_the_api_show_how_each_source_fares() -> None:
    page, got = ask(Fake(), "GET", "/").text, ask(Fake(), "GET", "/api/v1/sources").json()

    assert '<th scope="row">logs</th><td>up</td><td class="n" data-label="lag">0.2 s</td>' in page
    assert "&lt;b&gt;: 3" in page
    assert got == [
        {
            "name": "logs",
            "type": "logs",
            "up": True,
            "lag_seconds": 0.25,
            "members": 2,
            "read_bytes": 2048,
            "signals": 7,
            "unparsed": 1,
            "errors": {"<b>": 3},
            "files": None,
            "clocks": [],
        }
    ]


def test_many_groups_are_paged() -> None:
    rows = tuple(replace(row("c"), group=f"g{n:03}") for n in range(PAGE_ROWS + 7))

    first, second = (ask(Fake(rows), "GET", f"/?sort=name&page={n}").text for n in (1, 2))

    assert f"{PAGE_ROWS + 7} groups" in first
    assert [len(set(re.findall(r">(g\d{3})</a>", text))) for text in (first, second)] == [
        PAGE_ROWS,
        7,
    ]


@pytest.mark.parametrize("path", ["/group?group=nobody", "/group", "/incident?group=g&id=0"])
def test_what_nobody_knows_is_not_found(path: str) -> None:
    page = ask(Fake(), "GET", path)

    assert page.status_code == 404
    assert "Search groups" in page.text


@pytest.mark.parametrize("name", ["pages.css", "pages.js", "icon.svg"])
def test_files_of_pages_may_be_kept(name: str) -> None:
    file = ask(Fake(), "GET", f"/static/{name}")

    assert file.status_code == 200
    assert "immutable" in file.headers["cache-control"]
    assert ask(Fake(), "GET", "/static/other.css").status_code == 404


@asynccontextmanager
async def served(
    fake: Fake, *addresses: str, token_file: Path | None = None
) -> AsyncIterator[list[tuple[str, int]]]:
    sockets = listen(addresses or ("127.0.0.1:0",))
    bound = [each.getsockname()[:2] for each in sockets]
    app = make_app(WebConfig(token_file=token_file), 10**6, fake.answers)
    serving = asyncio.create_task(serve(app, sockets))
    try:
        yield bound
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


async def get(address: tuple[str, int], path: str) -> httpx.Response:
    # plain HTTP: the machine's certificates, which take 30 ms to read, are not wanted
    async with httpx.AsyncClient(verify=False, timeout=DEADLINE_S) as client:
        return await client.get(f"http://{address[0]}:{address[1]}{path}")


def test_every_listen_address_answers(caplog: pytest.LogCaptureFixture) -> None:
    async def both() -> tuple[list[int], list[tuple[str, int]]]:
        async with served(Fake(), "127.0.0.1:0", "127.0.0.1:0") as addresses:
            codes = [(await get(address, "/-/healthy")).status_code for address in addresses]
            return codes, addresses

    caplog.set_level("INFO")

    codes, addresses = asyncio.run(both())

    assert codes == [200, 200]
    logged = [vars(record)["address"] for record in caplog.records if record.msg == "listening"]
    assert logged == [f"{host}:{port}" for host, port in addresses]


@pytest.mark.parametrize("name", ["X-Forwarded-For", "X-Forwarded-Proto", "Forwarded"])
def test_a_peer_has_its_own_address_whatever_its_headers_name(name: str) -> None:
    """Events without a token are taken of this machine: anybody can write a header."""
    seen = list[tuple[object, object]]()

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((scope["client"], scope["scheme"]))
        await PlainTextResponse("noted")(scope, receive, send)

    async def asked() -> tuple[str, int]:
        (bound,) = listen(["127.0.0.1:0"])
        address = bound.getsockname()
        serving = asyncio.create_task(serve(note, [bound]))
        reader, writer = await asyncio.open_connection(*address)
        own: tuple[str, int] = writer.get_extra_info("sockname")
        head = (
            f"GET / HTTP/1.1\r\nHost: a\r\n{name}: https, 203.0.113.9\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode())
        await asyncio.wait_for(reader.read(), DEADLINE_S)
        writer.close()
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        return own

    assert [asyncio.run(asked())] == [client for client, _ in seen]
    assert [scheme for _, scheme in seen] == ["http"]


def test_a_scraper_that_does_not_read_holds_up_nobody() -> None:
    async def beside() -> int:
        fake = Fake(tuple(row(f"{i:05d}" + "x" * 2000) for i in range(3000)))
        async with served(fake) as (address,):
            slow = socket.create_connection(address)
            slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: agent\r\n\r\n")
            answer = await get(address, "/metrics")
            slow.close()
            return len(answer.content)

    assert asyncio.run(asyncio.wait_for(beside(), DEADLINE_S)) > 6_000_000


@pytest.mark.slow
def test_an_answer_that_nobody_takes_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "RESPONSE_TIMEOUT_S", 0.05)
    ended = asyncio.Event()
    lost = http_connection.HttpConnection.connection_lost

    def noticed(self: http_connection.HttpConnection, exc: Exception | None) -> None:
        lost(self, exc)
        ended.set()

    monkeypatch.setattr(http_connection.HttpConnection, "connection_lost", noticed)

    async def stalled() -> bool:
        fake = Fake(tuple(row(f"{i:05d}" + "x" * 2000) for i in range(6000)))
        async with served(fake) as (address,):
            with socket.create_connection(address) as slow:
                slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: agent\r\n\r\n")
                return await ended.wait()

    assert asyncio.run(asyncio.wait_for(stalled(), DEADLINE_S))


async def until_closed(address: tuple[str, int], first: bytes, rest: bytes = b"") -> bytes:
    """Return the server's response to the rest, until it closes the connection."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(first)
    if rest:
        await reader.readuntil(b"healthy\n")
        writer.write(rest)
    said = await asyncio.wait_for(reader.read(), DEADLINE_S)
    writer.close()
    return said


@pytest.mark.parametrize(
    ("first", "rest"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\nHost: ", b""),
        (b"GET /-/healthy HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /-/heal"),
    ],
)
def test_a_head_that_does_not_come_whole_ends_the_connection(
    first: bytes, rest: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "HEAD_TIMEOUT_S", 0.3)

    async def slow() -> bytes:
        async with served(Fake()) as (address,):
            return await until_closed(address, first, rest)

    assert asyncio.run(slow()) == b""


def test_an_answer_may_take_longer_than_a_head(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (token := tmp_path / "token").write_text("t")
    monkeypatch.setattr(http_connection, "HEAD_TIMEOUT_S", 0.3)

    class Slow(Fake):
        address: tuple[str, int]

        async def reload(self) -> None:
            await until_closed(self.address, b"")  # began later than the request

    async def ask_slowly() -> int:
        fake, headers = Slow(), {"Authorization": "Bearer t"}
        async with (
            served(fake, token_file=token) as (fake.address,),
            httpx.AsyncClient(headers=headers, timeout=DEADLINE_S) as client,
        ):
            url = f"http://{fake.address[0]}:{fake.address[1]}/-/reload"
            return (await client.post(url)).status_code

    assert asyncio.run(ask_slowly()) == 200


def test_a_body_does_not_wait_for_the_acknowledgement_of_its_head() -> None:
    (listening,) = listen(["127.0.0.1:0"])
    with listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()

        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_live_page_does_not_hold_up_the_end(caplog: pytest.LogCaptureFixture) -> None:
    async def follow() -> None:
        async with contextlib.AsyncExitStack() as stack:
            async with served(Fake()) as [(host, port)]:
                reader, writer = await asyncio.open_connection(host, port)
                stack.callback(writer.close)
                writer.write(b"GET /live?shown=0 HTTP/1.1\r\nHost: h\r\n\r\n")
                await asyncio.wait_for(reader.readuntil(b"retry: 3000"), DEADLINE_S)
            await asyncio.wait_for(reader.read(), DEADLINE_S)

    asyncio.run(follow())

    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_an_address_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        with pytest.raises(SourceError, match=f"cannot listen on '{address}': Address already"):
            listen(["127.0.0.1:0", address])


@pytest.mark.parametrize(
    ("first", "rounds"),
    [
        (b"", 4),
        (b"GET /-/healthy HT", 4),
        (b"POST /-/reload HTTP/1.1\r\n\r\n", 4),
        # it is answered: more than `BURST` of these are refused as too many requests
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\nnobody reads this", 2),
    ],
)
def test_connections_that_do_nothing_lose_against_new_ones(first: bytes, rounds: int) -> None:
    """80 at a time took health and scrapes away: a kubelet would have restarted the agent."""

    async def play() -> list[int]:
        async with contextlib.AsyncExitStack() as stack:
            [address] = await stack.enter_async_context(served(Fake((row("c1"),))))
            codes = []
            for _ in range(rounds):
                for _ in range(80):
                    _, writer = await asyncio.open_connection(*address)
                    stack.callback(writer.close)
                    writer.write(first)
                codes += [
                    (await get(address, path)).status_code for path in ("/-/healthy", "/metrics")
                ]
            return codes

    assert asyncio.run(play()) == [200] * 2 * rounds


def test_open_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "GRACE_S", 0.0)

    async def play() -> int:
        async with contextlib.AsyncExitStack() as stack:
            [address] = await stack.enter_async_context(served(Fake()))
            readers = []
            for _ in range(200):
                reader, writer = await asyncio.open_connection(*address)
                stack.callback(writer.close)
                readers.append(reader)
            await get(address, "/-/healthy")
            return sum(reader.at_eof() or reader.exception() is not None for reader in readers)

    assert asyncio.run(play()) >= 200 - MAX_CONNECTIONS


async def never_start(_scope: Scope, _receive: Receive, _send: Send) -> None:
    await asyncio.Event().wait()


async def never_complete(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"begun", "more_body": True})
    await asyncio.Event().wait()


async def write_without_end(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while True:
        await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})


@pytest.mark.parametrize("app", [never_start, never_complete, write_without_end])
def test_requests_that_the_end_cuts_are_one_line_without_a_traceback(
    app: ASGIApp, caplog: pytest.LogCaptureFixture
) -> None:
    began = asyncio.Event()

    async def noted(scope: Scope, receive: Receive, send: Send) -> None:
        began.set()
        await app(scope, receive, send)

    async def play() -> None:
        (bound,) = listen(["127.0.0.1:0"])
        serving = asyncio.create_task(serve(noted, [bound]))
        reader, writer = await asyncio.open_connection(*bound.getsockname())
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.wait_for(began.wait(), DEADLINE_S)
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        with contextlib.suppress(ConnectionError):
            while await asyncio.wait_for(reader.read(1 << 20), DEADLINE_S):
                pass
        writer.close()

    caplog.set_level(logging.INFO)
    asyncio.run(play())

    assert [each.getMessage() for each in caplog.records if each.exc_info] == []
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []
    [cut] = [each for each in caplog.records if each.getMessage() == "requests_cut"]
    assert vars(cut)["requests"] == 1


_CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
_NO_CHUNK = b"-5\r\n"


@pytest.mark.parametrize(("is_begun", "statuses"), [(False, [b"400"]), (True, [b"200"])])
def test_malformed_chunk_ends_the_connection_without_a_traceback(
    is_begun: bool, statuses: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """A response that has begun, or comes later, met h11's refusal of a second one."""
    ended = asyncio.Event()

    async def respond(_scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": []}
        if is_begun:
            await send(start)
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                pass
        else:  # as for a path that takes no body
            await send(start)
        await send({"type": "http.response.body", "body": b"whole", "more_body": False})
        ended.set()

    async def play() -> bytes:
        (bound,) = listen(["127.0.0.1:0"])
        serving = asyncio.create_task(serve(respond, [bound]))
        reader, writer = await asyncio.open_connection(*bound.getsockname())
        writer.write(_CHUNKED + (b"" if is_begun else _NO_CHUNK))
        begun = await asyncio.wait_for(reader.readuntil(b"begun"), DEADLINE_S) if is_begun else b""
        writer.write(_NO_CHUNK)
        rest = await asyncio.wait_for(reader.read(), DEADLINE_S)
        await asyncio.wait_for(ended.wait(), DEADLINE_S)
        writer.close()
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        return begun + rest

    received = asyncio.run(play())

    assert re.findall(rb"HTTP/1\.1 (\d+)", received) == statuses
    assert [each.getMessage() for each in caplog.records if each.exc_info] == []
