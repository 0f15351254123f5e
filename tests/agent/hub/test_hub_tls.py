"""A hub with TLS, client certificates, a token and users; agents that get in when put right."""

import os
import ssl
import subprocess
from datetime import datetime
from pathlib import Path

import bcrypt
import httpx
import pytest
import trustme

from agent.config.hub import HubConfig
from agent.errors import ConfigError
from agent.outputs.hub_push.push import HubPush
from tests.agent.hub.test_hub import AGENT, DEADLINE_S, NEW, Process, lines, running, start
from tests.agent.wiring.test_restart import until

__all__ = ["start"]  # a fixture

WEB = """
tls_server_config:
  cert_file: own.pem
  key_file: own.pem
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.pem
basic_auth_users:
  reader: {hashed}
"""
AWAY = {
    "bare": "certificate required",
    "stranger": "unknown ca",
    "trustless": "CERTIFICATE_VERIFY_FAILED",
    "elsewhere": "IP address mismatch",
}
"""What an agent tells of its fault."""


class Told(Process):
    """Writes its log to a file, and reads the web configuration beside it."""

    def start(self) -> None:
        web = self.folder.parent / f"{self.folder.name}.web.yaml"
        environment = os.environ | {"XDG_STATE_HOME": str(self.folder)}
        if web.exists():
            environment["REBALANCE_AGENT_WEB_CONFIG_FILE"] = str(web)
        with (self.folder / "stderr").open("ab") as stderr:
            command = [*AGENT, "run", "-c", str(self.folder / "agent.yaml")]
            self.process = subprocess.Popen(command, env=environment, stderr=stderr)

    def got(self, event: str) -> str:
        lines_told = (self.folder / "stderr").read_text().splitlines()
        return "\n".join(line for line in lines_told if f"event={event} " in line)


class Place:
    """Certificates, right and wrong."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority, self.other = trustme.CA(), trustme.CA()
        self.write(self.authority.cert_pem, "ca.pem")
        self.write(self.other.cert_pem, "other-ca.pem")
        self.show("own.pem", self.authority, "localhost")
        self.show("agent.pem", self.authority, "agent")
        self.show("stranger.pem", self.other, "agent")
        hashed = bcrypt.hashpw(b"pass word", bcrypt.gensalt(4)).decode()
        (folder / "hub.web.yaml").write_text(WEB.format(hashed=hashed))
        (folder / "token").write_text("secret\n")

    def write(self, blob: trustme.Blob, name: str) -> None:
        """Write so that nobody reads half of it."""
        blob.write_to_path(str(self.folder / f".{name}"))
        (self.folder / f".{name}").replace(self.folder / name)

    def show(self, name: str, authority: trustme.CA, *hosts: str) -> None:
        self.write(authority.issue_cert(*hosts).private_key_and_cert_chain_pem, name)


@pytest.mark.process
def test_agents_get_in_when_they_are_put_right_and_lose_nothing(
    tmp_path: Path, start: datetime
) -> None:
    place = Place(tmp_path)
    hub = Told(tmp_path / "hub", f"role: hub\nhub: {{token_file: {tmp_path}/token}}\n")
    port = hub.url.rpartition(":")[2]

    def agent(name: str, ca: str = "ca", own: str = "agent", host: str = "localhost") -> Told:
        certificate = f", certificate_file: {tmp_path}/{own}.pem" if own else ""
        made = Told(
            tmp_path / name,
            f"sources: [{{type: logs, paths: [{tmp_path}/{name}/app.log]}}]\n"
            f"hub: {{push_to: ['https://{host}:{port}'], token_file: {tmp_path}/token,"
            f" ca_file: {tmp_path}/{ca}.pem{certificate}, interval: 200ms}}\n",
        )
        made.say(lines(name, 1, start, NEW))
        return made

    bare, elsewhere = agent("bare", own=""), agent("elsewhere", host="127.0.0.1")
    agents = [
        bare,
        elsewhere,
        agent("stranger", own="stranger"),
        agent("trustless", ca="other-ca"),
    ]
    with running(hub, *agents):
        until(lambda: all(AWAY[each.folder.name] in each.got("hub_unreachable") for each in agents))
        until(lambda: [len(each.ids()) for each in agents] == [2] * len(agents))
        refused = hub.ids()

        bare.kill()
        config = (bare.folder / "agent.yaml").read_text()
        ca_file = f"ca_file: {tmp_path}/ca.pem"
        with_own = f"{ca_file}, certificate_file: {tmp_path}/agent.pem"
        (bare.folder / "agent.yaml").write_text(config.replace(ca_file, with_own))
        bare.start()
        place.show("stranger.pem", place.authority, "agent")
        place.write(place.authority.cert_pem, "other-ca.pem")
        place.show("own.pem", place.authority, "localhost", "127.0.0.1")  # the hub's own

        until(lambda: hub.ids() == sorted(id_ for each in agents for id_ in each.ids()))
        until(lambda: all(each.got("hub_reachable") for each in agents[1:]))
        asked = {name: _ask(place, port, *auth) for name, auth in ASKED.items()}

    assert refused == []
    assert len(hub.ids()) == 2 * len(agents)
    assert asked == {"reader": 200, "nobody": 401, "reader of records": 401}


ASKED = {
    "reader": ("metrics", ("reader", "pass word")),
    "nobody": ("metrics", ("reader", "password")),
    "reader of records": ("api/v1/records", ("reader", "pass word")),
}
"""Users read what the hub shows; records are for who has the token."""


def _ask(place: Place, port: str, path: str, auth: tuple[str, str]) -> int:
    context = ssl.create_default_context(cafile=place.folder / "ca.pem")
    context.load_cert_chain(place.folder / "agent.pem")
    url = f"https://localhost:{port}/{path}"
    return httpx.get(url, auth=auth, verify=context, timeout=DEADLINE_S).status_code


@pytest.mark.parametrize("name", ["ca_file", "certificate_file"])
def test_a_file_that_is_no_certificate_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "odd").write_text("odd")
    config = HubConfig(push_to=("https://hub",), **{name: tmp_path / "odd"})  # type: ignore[arg-type]

    with pytest.raises(ConfigError, match=f"hub.{name}: {tmp_path}/odd: .*; wanted PEM"):
        HubPush("https://hub", config, tmp_path)
