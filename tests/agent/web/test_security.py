"""The guard at the door, and TLS, of a server on a socket."""

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import bcrypt
import httpx
import pytest
import trustme

from agent.config.web import WebConfig
from agent.errors import ConfigError
from agent.web import handshakes
from agent.web import security as web_security
from agent.web.security import WebSecurity
from agent.web.server import listen, make_app
from agent.wiring.web import WebWiring
from tests.agent.web.test_server import Fake

DEADLINE_S = 90.0
HASHES = {name: bcrypt.hashpw(name.encode() * 2, bcrypt.gensalt(4)).decode() for name in ("a", "b")}
"""Everybody's password is the name, twice."""
USERS = f"basic_auth_users: {{a: {HASHES['a']}}}\n"
TLS = "tls_server_config:\n  cert_file: own.pem\n  key_file: own.key\n"
MUTUAL = f"{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n"


class Place:
    """A folder with the file, certificates and their authority."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "web.yaml"
        self.authority = trustme.CA()
        self.authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        self.issue()

    def issue(self) -> None:
        made = self.authority.issue_cert("localhost")
        made.private_key_pem.write_to_path(str(self.folder / "own.key"))
        made.cert_chain_pems[0].write_to_path(str(self.folder / "own.pem"))

    def client(self, shown: trustme.LeafCert | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        if shown is not None:
            shown.configure_cert(context)
        return context


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


class Served:
    """A server with this configuration file, and its clients."""

    def __init__(self, place: Place, port: int, reloads: Counter[str]) -> None:
        self.place, self.port, self.reloads = place, port, reloads

    async def get(
        self, path: str = "/-/healthy", user: str = "", tls: ssl.SSLContext | None = None
    ) -> httpx.Response:
        return await self.ask("GET", path, user, tls)

    async def ask(
        self, method: str, path: str, user: str = "", tls: ssl.SSLContext | None = None
    ) -> httpx.Response:
        auth = httpx.BasicAuth(user, user * 2) if user else None
        is_tls = self.place.file.read_text().startswith("tls")
        url = f"http{'s' if is_tls else ''}://localhost:{self.port}{path}"
        async with httpx.AsyncClient(
            verify=tls or self.place.client(), auth=auth, timeout=DEADLINE_S
        ) as client:
            return await client.request(method, url)

    async def serial(self) -> str:
        """Return the number of the certificate that a new connection sees."""
        _, writer = await asyncio.open_connection(
            "localhost", self.port, ssl=self.place.client(), server_hostname="localhost"
        )
        seen = writer.get_extra_info("peercert")["serialNumber"]
        writer.close()
        await writer.wait_closed()
        return str(seen)


@asynccontextmanager
async def served(place: Place, own_token: str = "") -> AsyncIterator[Served]:
    (socket,), reloads = listen(["127.0.0.1:0"]), Counter[str]()
    port = socket.getsockname()[1]
    side = WebWiring(WebConfig(config_file=place.file), reloads)
    app = make_app(WebConfig(), 1000, Fake().answers)
    serving = asyncio.create_task(side.serve(app, [socket], 64, [lambda path: path == own_token]))
    try:
        yield Served(place, port, reloads)
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


def play(place: Place, scenario: Callable[[Served], Awaitable[None]], own_token: str = "") -> None:
    async def both() -> None:
        async with served(place, own_token) as server:
            await scenario(server)

    asyncio.run(asyncio.wait_for(both(), DEADLINE_S))


@pytest.mark.parametrize("text", [USERS, TLS + USERS], ids=["http", "https"])
def test_only_users_are_answered(place: Place, text: str) -> None:
    async def scenario(server: Served) -> None:
        codes = [(await server.get(user=user)).status_code for user in ("", "b", "aa", "a", "a")]
        challenge = (await server.get()).headers["www-authenticate"]

        assert codes == [401, 401, 401, 200, 200]
        assert challenge.startswith("Basic realm=")

    place.file.write_text(text)
    play(place, scenario)


def test_a_user_may_reload_and_nobody_else(place: Place) -> None:
    async def scenario(server: Served) -> None:
        codes = [(await server.ask("POST", "/-/reload", user)).status_code for user in ("", "a")]
        assert codes == [401, 200]

    place.file.write_text(USERS)
    play(place, scenario)


def test_without_users_nobody_may_reload(place: Place) -> None:
    async def scenario(server: Served) -> None:
        assert (await server.ask("POST", "/-/reload", "a")).status_code == 403

    place.file.write_text(TLS)
    play(place, scenario)


def test_a_password_is_checked_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    checks, check = list[bytes](), bcrypt.checkpw

    def counted(password: bytes, hashed: bytes) -> bool:
        checks.append(password)
        return check(password, hashed)

    async def scenario(server: Served) -> None:
        codes = [(await server.get(user="a")).status_code for _ in range(3)]

        assert codes == [200, 200, 200]
        assert checks == [b"aa"]

    monkeypatch.setattr(bcrypt, "checkpw", counted)
    place.file.write_text(USERS)
    play(place, scenario)


def test_a_flood_of_passwords_does_not_pile_up(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(server: Served) -> None:
        await server.get(user="a")
        monkeypatch.setattr(web_security, "MAX_WAITING", 0)
        wrong, known = await server.get(user="b"), await server.get(user="a")

        assert (wrong.status_code, wrong.headers["retry-after"]) == (503, "5")
        assert known.status_code == 200

    place.file.write_text(USERS)
    play(place, scenario)


def test_a_route_with_a_token_of_its_own_asks_for_that_alone(place: Place) -> None:
    async def scenario(server: Served) -> None:
        own, other = await server.get("/-/ready"), await server.get("/-/ready/")

        assert (own.status_code, other.status_code) == (200, 401)

    place.file.write_text(USERS)
    play(place, scenario, own_token="/-/ready")


def test_headers_are_added_and_replace_none(place: Place) -> None:
    async def scenario(server: Served) -> None:
        healthy, page = await server.get(user="a"), await server.get("/", user="a")
        refused = await server.get()

        assert healthy.headers["content-security-policy"] == "frame-ancestors 'none'"
        assert refused.headers["x-frame-options"] == "deny"
        assert page.headers.get_list("content-security-policy")[0].startswith("default-src 'none'")
        assert len(page.headers.get_list("content-security-policy")) == 1
        assert "x-xss-protection" not in page.headers

    place.file.write_text(
        f"{USERS}http_server_config: {{headers: {{X-Frame-Options: deny, X-XSS-Protection: '',"
        " Content-Security-Policy: \"frame-ancestors 'none'\"}}\n"
    )
    play(place, scenario)


def test_users_change_without_a_restart_and_a_wrong_file_changes_nothing(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(server: Served) -> None:
        first = [(await server.get(user=user)).status_code for user in "ab"]
        place.file.write_text(f"basic_auth_users: {{b: {HASHES['b']}}}\n")
        second = [(await server.get(user=user)).status_code for user in "ab"]
        place.file.write_text("basic_auth_users: {a: aa}\n")
        third = [(await server.get(user=user)).status_code for user in "ab"]

        assert [first, second, third] == [[200, 401], [401, 200], [401, 200]]
        assert server.reloads == {"success": 1, "failure": 1}

    place.file.write_text(USERS)
    play(place, scenario)

    (got,) = [vars(record)["error"] for record in caplog.records if record.levelname == "ERROR"]
    assert got.startswith(f"{place.file}: basic_auth_users.a: wanted a bcrypt hash")


def test_certificates_change_without_a_restart(place: Place) -> None:
    async def scenario(server: Served) -> None:
        async with httpx.AsyncClient(verify=place.client(), timeout=DEADLINE_S) as open_one:
            url = f"https://localhost:{server.port}/-/healthy"
            await open_one.get(url)
            first, same = await server.serial(), await server.serial()
            place.issue()
            second = await server.serial()
            (place.folder / "own.pem").write_text("torn")
            third = await server.serial()

            assert first == same != second == third
            assert (await open_one.get(url)).status_code == 200
            assert server.reloads == {"success": 1, "failure": 1}

    place.file.write_text(TLS)
    play(place, scenario)


def test_tls_itself_wants_a_restart(place: Place) -> None:
    place.file.write_text(TLS)
    security = WebSecurity(place.file, Counter())
    place.file.write_text(USERS)

    with pytest.raises(ConfigError, match="wanted a restart to turn TLS on or off"):
        security.reload()

    assert security.current().users is None


def test_clients_show_a_certificate_and_are_told_what_is_wrong_with_it(place: Place) -> None:
    async def refusal(server: Served, tls: ssl.SSLContext) -> str:
        with pytest.raises((httpx.TransportError, ssl.SSLError)) as refused:
            await server.get(tls=tls)
        return str(refused.value)

    async def scenario(server: Served) -> None:
        right = place.authority.issue_cert("scraper")
        stranger = trustme.CA().issue_cert("scraper")

        assert (await server.get(tls=place.client(right))).status_code == 200
        assert "certificate required" in await refusal(server, place.client())
        assert "unknown ca" in await refusal(server, place.client(stranger))

    place.file.write_text(MUTUAL)
    play(place, scenario)


def test_only_allowed_names_get_in(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(server: Served) -> None:
        for name in ("scraper", "2001:db8::1", "ops@example.org"):
            shown = place.authority.issue_cert("other", name)
            assert (await server.get(tls=place.client(shown))).status_code == 200

        with pytest.raises((httpx.TransportError, ssl.SSLError)):
            await server.get(tls=place.client(place.authority.issue_cert("other")))

    names = "[scraper, '2001:db8::1', ops@example.org]"
    place.file.write_text(f"{MUTUAL}  client_allowed_sans: {names}\n")
    play(place, scenario)

    (got,) = [record for record in caplog.records if record.message == "client_refused"]
    assert vars(got)["sans"] == "other"


@pytest.mark.parametrize(
    ("more", "version", "suite"),
    [
        ("", "TLSv1.3", ""),
        ("max_version: TLS12", "TLSv1.2", ""),
        ("cipher_suites: [TLS_AES_128_GCM_SHA256], min_version: TLS12", "TLSv1.3", ""),
        (
            "cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384], max_version: TLS12",
            "TLSv1.2",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
        ),
    ],
)
def test_versions_and_suites(place: Place, more: str, version: str, suite: str) -> None:
    async def scenario(server: Served) -> None:
        _, writer = await asyncio.open_connection("localhost", server.port, ssl=place.client())
        found = writer.get_extra_info("cipher")
        writer.close()

        assert (writer.get_extra_info("ssl_object").version(), suite) in {
            (version, found[0]),
            (version, ""),
        }

    place.file.write_text(f"tls_server_config: {{cert_file: own.pem, key_file: own.key, {more}}}")
    play(place, scenario)


@pytest.mark.parametrize("more", ["min_version: TLS13", "cipher_suites: [TLS_AES_128_GCM_SHA256]"])
def test_an_older_version_is_refused(place: Place, more: str) -> None:
    async def scenario(server: Served) -> None:
        old = place.client()
        old.maximum_version = ssl.TLSVersion.TLSv1_2

        with pytest.raises(httpx.TransportError, match="protocol version"):
            await server.get(tls=old)

    place.file.write_text(f"tls_server_config: {{cert_file: own.pem, key_file: own.key, {more}}}")
    play(place, scenario)


def test_a_handshake_that_does_not_come_ends_the_connection(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(server: Served) -> None:
        reader, writer = await asyncio.open_connection("localhost", server.port)

        assert await reader.read() == b""
        writer.close()

    monkeypatch.setattr(handshakes, "HEAD_TIMEOUT_S", 0.05)
    place.file.write_text(TLS)
    play(place, scenario)


@pytest.mark.parametrize("first", [b"", b"\x16\x03\x01\x02\x00\x01"])
def test_half_open_handshakes_are_bounded_and_lose_against_new_ones(
    place: Place, monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    """Only time bounded them: a thousand would hold all descriptors for 10 s."""
    monkeypatch.setattr(handshakes, "GRACE_S", 0.0)

    async def scenario(server: Served) -> None:
        async with contextlib.AsyncExitStack() as stack:
            readers = []
            for _ in range(200):
                reader, writer = await asyncio.open_connection("localhost", server.port)
                stack.callback(writer.close)
                writer.write(first)
                readers.append(reader)
            assert (await server.get()).status_code == 200
            ended = [reader.at_eof() or reader.exception() is not None for reader in readers]
            assert sum(ended) >= 200 - 64

    place.file.write_text(TLS)
    play(place, scenario)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (TLS.replace("own.key", "none.key"), "key_file: {folder}/none.key: No such file"),
        (TLS.replace("own.key", "ca.pem"), "cert_file: {folder}/own.pem with key {folder}/ca.pem"),
        (MUTUAL.replace("ca.pem", "web.yaml"), "client_ca_file: {folder}/web.yaml: "),
        (f"{TLS}  cipher_suites: [TLS_AES_128_GCM_SHA25]", "cipher_suites[0]: unknown 'TLS_AES"),
        (
            f"{TLS}  max_version: TLS12\n  cipher_suites: [TLS_AES_128_GCM_SHA256]",
            "cipher_suites: wanted one of TLS 1.2, for max_version is TLS12",
        ),
    ],
)
def test_what_is_wrong_is_told_by_file_and_key(place: Place, text: str, complaint: str) -> None:
    place.file.write_text(text)

    with pytest.raises(ConfigError) as refused:
        WebSecurity(place.file, Counter())

    got = f"{place.file}: tls_server_config.{complaint.format(folder=place.folder)}"
    assert str(refused.value).startswith(got)
