"""The web configuration as a part of the agent: options, reload, and routes with tokens."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from agent.cli import main
from agent.errors import ConfigError
from agent.wiring.agent import Agent
from agent.wiring.agent_config import Overrides, load
from tests.agent.web.test_security import HASHES, TLS, USERS, Place
from tests.agent.wiring.test_agent import Bench

CONFIG = """
state_dir: {folder}
sources: [{sources}]
web: {{listen: ["127.0.0.1:0"], config_file: {folder}/web.yaml}}
"""


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    logs = "{type: logs, paths: [/nowhere]}"
    (tmp_path / "web.yaml").write_text(USERS)
    (tmp_path / "agent.yaml").write_text(CONFIG.format(folder=tmp_path, sources=logs))
    return tmp_path / "agent.yaml"


async def status(bench: Bench, path: str, user: str = "", **headers: str) -> int:
    auth = httpx.BasicAuth(user, user * 2) if user else None
    async with httpx.AsyncClient(auth=auth, headers=headers, verify=False) as client:
        url = f"http://{bench.address}{path}"
        answer = await (client.post(url) if "events" in path else client.get(url))
        return answer.status_code


def test_a_reload_reads_the_web_configuration_and_a_wrong_one_fails(
    config_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    web = config_file.parent / "web.yaml"

    async def scenario(bench: Bench) -> None:
        assert [await status(bench, "/metrics", user) for user in ("", "a")] == [401, 200]
        web.write_text("basic_auth_users: {a: plain}")
        with pytest.raises(ConfigError, match=r"web\.yaml: basic_auth_users\.a: wanted a bcrypt"):
            await bench.agent.reload()
        assert [await status(bench, "/metrics", user) for user in ("b", "a")] == [401, 200]
        web.write_text(f"basic_auth_users: {{b: {HASHES['b']}}}")
        await bench.agent.reload()
        assert [await status(bench, "/metrics", user) for user in ("b", "a")] == [200, 401]
        assert bench.agent.snapshot()[1].reloads == {"success": 1, "failure": 1}

    Bench(config_file).run(caplog, scenario)


def test_a_wrong_web_configuration_begins_nothing(config_file: Path) -> None:
    (config_file.parent / "web.yaml").write_text(TLS)

    with pytest.raises(ConfigError, match=r"cert_file: .*/own\.pem: No such file"):
        Bench(config_file)


def check(config_file: Path) -> Result:
    return CliRunner().invoke(main, ["check-config", "-c", str(config_file)])


def test_check_config_reads_it_too(config_file: Path, tmp_path: Path) -> None:
    right = check(config_file)
    (tmp_path / "web.yaml").write_text(TLS)
    wrong = check(config_file)
    Place(tmp_path)
    mended = check(config_file)

    assert [each.exit_code for each in (right, wrong, mended)] == [0, 2, 0]
    assert f"config_file: {tmp_path}/web.yaml" in right.stdout
    assert HASHES["a"] not in right.stdout
    assert "tls_server_config.cert_file: " in wrong.stderr


def test_the_flag_wins_over_the_file(config_file: Path) -> None:
    config = load(config_file, Overrides(web_config_file="other.yaml"), environ={})

    assert config.web.config_file == Path("other.yaml")


def test_who_configures_none_does_not_pay_for_it() -> None:
    code = "import sys, agent.wiring.agent; print(*sys.modules)"

    loaded = subprocess_modules(code)

    assert "agent.wiring.web" in loaded
    assert not {"bcrypt", "agent.web.security", "agent.web.basic_auth", "agent.web.tls"} & loaded


def test_who_is_not_scraped_does_not_pay_for_the_page() -> None:
    assert "prometheus_client" not in subprocess_modules(
        "import sys, agent.wiring.agent; print(*sys.modules)"
    )


def subprocess_modules(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=True)
    return set(done.stdout.decode().split())


@pytest.mark.parametrize(("has_token", "codes"), [(True, [200, 401]), (False, [401, 200])])
def test_a_token_of_a_hub_goes_before_users(
    tmp_path: Path, has_token: bool, codes: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(bench: Bench) -> None:
        records = "/api/v1/records"
        bearer = {"Authorization": "Bearer secret", "X-Spool": "s"}
        assert await status(bench, records, **bearer) == codes[0]
        assert await status(bench, records, "a", **{"X-Spool": "s"}) == codes[1]
        assert await status(bench, "/metrics", **bearer) == 401

    (tmp_path / "token").write_text("secret")
    (tmp_path / "web.yaml").write_text(USERS)
    hub = f"role: hub\nhub: {{token_file: {tmp_path}/token}}\n" if has_token else "role: hub\n"
    (tmp_path / "agent.yaml").write_text(hub + CONFIG.format(folder=tmp_path, sources=""))
    Whole(tmp_path / "agent.yaml").run(caplog, scenario)


@pytest.mark.parametrize(
    ("token", "codes"), [(", token_file: {}/token", [202, 401]), ("", [401, 202])]
)
def test_a_token_of_events_goes_before_users(
    tmp_path: Path, token: str, codes: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(bench: Bench) -> None:
        events = "/api/v1/events"
        assert await status(bench, events, Authorization="Bearer secret") == codes[0]
        assert await status(bench, events, "a") == codes[1]

    (tmp_path / "token").write_text("secret")
    (tmp_path / "web.yaml").write_text(USERS)
    source = f"{{type: http{token.format(tmp_path)}}}"
    (tmp_path / "agent.yaml").write_text(CONFIG.format(folder=tmp_path, sources=source))
    Whole(tmp_path / "agent.yaml").run(caplog, scenario)


class Whole(Bench):
    """With the sources that are configured."""

    def __init__(self, config_file: Path) -> None:
        self.config_file = config_file
        self.address = ""
        self.agent = Agent(self.load(), self.load)
