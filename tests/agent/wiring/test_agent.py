import asyncio
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import msgspec
import pytest
import yaml

from agent.errors import ConfigError, OutputError, SourceError
from agent.hub.rebalance_recorder import RebalanceRecorder
from agent.runtime.pipeline import Positions
from agent.sources.base import Source
from agent.wiring.agent import Agent
from agent.wiring.agent_config import AgentConfig, load
from agent.wiring.sources import decode_position
from metrics.model.sample import Sample
from metrics.model.status import RebalanceStatus as Status
from tests.agent.observed import ScriptedSource, member, raised, synced

DEADLINE_S = 90.0
CONFIG = """
host: node-1
state_dir: {folder}
sources:
  - {{type: logs, paths: [/nowhere]}}
web: {{listen: ["127.0.0.1:0"], token_file: {folder}/token}}
"""


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(CONFIG.format(folder=tmp_path))
    (tmp_path / "token").write_text("token\n")
    return path


class Bench:
    """One agent over scripted sources, with the queries of the tests."""

    def __init__(self, config_file: Path, *names: str) -> None:
        self.config_file = config_file
        self.names = names or ("scripted",)
        self.sources: list[ScriptedSource] = []
        self.address = ""
        self.agent = Agent(self.load(), self.load, self._make_sources)

    def load(self) -> AgentConfig:
        return load(self.config_file, environ={})

    def _make_sources(self, config: AgentConfig, positions: Positions) -> list[Source]:
        if config.host == "refused":
            raise ConfigError("no such rule")
        self.sources = [
            ScriptedSource(name, decode_position(positions.get(name))) for name in self.names
        ]
        return list(self.sources)

    def run(
        self, caplog: pytest.LogCaptureFixture, scenario: Callable[["Bench"], Awaitable[None]]
    ) -> None:
        """Run the agent around a scenario; it must have drained within the deadline."""

        async def both() -> None:
            running = asyncio.create_task(self.agent.run())
            await self.until(lambda: bool(caplog.records) or running.done())
            self.address = next(
                vars(record)["address"] for record in caplog.records if record.msg == "listening"
            )
            try:
                await scenario(self)
            finally:
                self.agent.stop()
                await running

        caplog.clear()
        caplog.set_level("INFO")
        asyncio.run(asyncio.wait_for(both(), DEADLINE_S))

    def edit(self, old: str, new: str) -> None:
        self.config_file.write_text(self.config_file.read_text().replace(old, new))

    async def until(self, fact: Callable[[], bool]) -> None:
        while not fact():  # noqa: ASYNC110 - looks from outside: nobody tells
            await asyncio.sleep(0.01)

    async def ask(self, path: str, method: str = "GET") -> httpx.Response:
        async with httpx.AsyncClient(verify=False, timeout=DEADLINE_S) as client:  # plain HTTP
            shown = {"Authorization": "Bearer token"}
            return await client.request(method, f"http://{self.address}{path}", headers=shown)

    async def until_shown(self, text: str) -> None:
        while text not in (await self.ask("/metrics")).text:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)


def spooled(folder: Path) -> list[Sample]:
    files = sorted((folder / "spool").glob("*.jsonl"))
    lines = [line for file in files for line in file.read_bytes().splitlines()]
    return [msgspec.json.decode(line, type=Sample) for line in lines]


def test_a_signal_is_shown_spooled_and_remembered(
    config_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def first(bench: Bench) -> None:
        bench.sources[0].say(raised(Status.NEW_MEMBER, time.time()))
        await bench.until_shown("kafka_group_rebalance_status{")
        assert (await bench.ask("/-/ready")).status_code == 200

    async def second(bench: Bench) -> None:
        await bench.until(lambda: bench.sources[0].runs == 1)
        bench.sources[0].say(synced(time.time() + 1))
        await bench.until(lambda: bench.sources[0].position == {"said": 2})

    Bench(config_file).run(caplog, first)
    Bench(config_file).run(caplog, second)

    moves = [(s.from_, s.to, s.agent, s.seq) for s in spooled(tmp_path) if s.kind == "transition"]
    assert [move[:3] for move in moves] == [(0, 2, "node-1"), (2, 0, "node-1")]
    assert [seq for *_, seq in moves] == sorted(seq for *_, seq in moves)


def test_ready_only_once_every_source_has_caught_up(
    config_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.until(lambda: all(source.runs for source in bench.sources))
        bench.sources[1].behind_at = 0.0
        behind = await bench.ask("/-/ready")
        bench.sources[1].behind_at = None
        ready = await bench.ask("/-/ready")
        bench.sources[1].behind_at = 0.0
        later = await bench.ask("/-/ready")

        assert (behind.status_code, behind.text) == (503, "waiting for b\n")
        assert (ready.status_code, later.status_code) == (200, 200)

    Bench(config_file, "a", "b").run(caplog, scenario)


def test_a_source_that_breaks_stops_no_other(
    config_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(bench: Bench) -> None:
        broken, sound = bench.sources
        broken.position = {}  # a bug: its next look at it fails
        broken.say(raised(Status.NEW_MEMBER, time.time()))
        sound.say(raised(Status.STALE_MEMBER, time.time(), member("c2")))
        await bench.until_shown('errors_total{reason="ended",source="broken"} 1.0')
        await bench.until_shown('client_id="c2"')

    Bench(config_file, "broken", "sound").run(caplog, scenario)

    assert [r.levelname for r in caplog.records if r.msg == "source_failed"] == ["ERROR"]


def test_a_sink_that_breaks_begins_again_and_stops_nothing(
    config_file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = list[Path]()

    def broken(folder: Path) -> str:
        tries.append(folder)
        raise ZeroDivisionError  # a bug

    monkeypatch.setattr("agent.outputs.hub_push.push.spool_id", broken)
    monkeypatch.setattr("agent.runtime.supervisor.RESTART_S", 0.2)
    with config_file.open("a") as file:
        file.write('hub: {push_to: ["http://127.0.0.1:1"]}\n')

    async def scenario(bench: Bench) -> None:
        await bench.until_shown('sink_errors_total{sink="hub:127.0.0.1:1"} 2.0')
        bench.sources[0].say(raised(Status.STALE_MEMBER, time.time(), member("c2")))
        await bench.until_shown('client_id="c2"')

    Bench(config_file).run(caplog, scenario)

    assert len(tries) >= 2
    got = [record for record in caplog.records if record.msg == "output_failed"]
    assert [bool(record.exc_info) for record in got] == [True] + [False] * (len(got) - 1)


def test_a_search_for_causes_that_breaks_begins_again_and_stops_nothing(
    config_file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: RebalanceRecorder) -> None:
        raise ZeroDivisionError  # a bug

    monkeypatch.setattr(RebalanceRecorder, "check", broken)
    monkeypatch.setattr("agent.hub.rebalance_recorder._CHECK_S", 0.01)
    monkeypatch.setattr("agent.runtime.supervisor.RESTART_S", 0.01)
    with config_file.open("a") as file:
        file.write("role: standalone\n")

    def got() -> list[logging.LogRecord]:
        return [record for record in caplog.records if record.msg == "groups_failed"]

    async def scenario(bench: Bench) -> None:
        await bench.until(lambda: len(got()) > 1)
        bench.sources[0].say(raised(Status.STALE_MEMBER, time.time(), member("c2")))
        await bench.until_shown('client_id="c2"')

    Bench(config_file).run(caplog, scenario)


def test_reload_keeps_state_and_names_applications_anew(
    config_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(bench: Bench) -> None:
        bench.sources[0].say(raised(Status.NEW_MEMBER, time.time()))
        await bench.until_shown('kafka_app_rebalance_status{app="payments-in"')
        bench.edit("web:", "apps: {payments: [payments-in]}\nweb:")

        answer = await bench.ask("/-/reload", "POST")

        assert answer.status_code == 200
        assert bench.sources[0].position == {"said": 1}
        page = (await bench.ask("/metrics")).text
        assert 'kafka_app_rebalance_status{app="payments",kafka_cluster=""} 2.0' in page
        assert 'app="payments-in"' not in page
        assert 'rebalance_agent_config_reloads_total{outcome="success"} 1.0' in page

    Bench(config_file).run(caplog, scenario)


@pytest.mark.parametrize("change", ["sourcess: []", "host: refused"])
def test_a_wrong_file_keeps_the_old_configuration(
    config_file: Path, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    async def scenario(bench: Bench) -> None:
        bench.sources[0].say(raised(Status.NEW_MEMBER, time.time()))
        await bench.until_shown("kafka_group_rebalance_status{")
        bench.edit("host: node-1", change)

        os.kill(os.getpid(), signal.SIGHUP)

        await bench.until_shown('rebalance_agent_config_reloads_total{outcome="failure"} 1.0')
        await bench.until_shown("kafka_group_rebalance_status{")
        assert bench.sources[0].runs == 1

    Bench(config_file).run(caplog, scenario)

    assert [r.levelname for r in caplog.records if r.msg == "reload_failed"] == ["ERROR"]


def test_what_a_reload_cannot_change_is_said(
    config_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(bench: Bench) -> None:
        bench.edit("web: {", "web: {state_sets: true, ")
        await bench.ask("/-/reload", "POST")

    Bench(config_file).run(caplog, scenario)

    warned = [vars(r)["sections"] for r in caplog.records if r.msg == "restart_needed"]
    assert warned == ["web"]


def test_sigterm_drains(
    config_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(bench: Bench) -> None:
        bench.sources[0].say(raised(Status.NEW_MEMBER, time.time()))
        await bench.until(lambda: bench.sources[0].position == {"said": 1})
        os.kill(os.getpid(), signal.SIGTERM)
        await bench.until(lambda: any(r.msg == "stopped" for r in caplog.records))

    Bench(config_file).run(caplog, scenario)

    assert [sample.to for sample in spooled(tmp_path) if sample.kind == "transition"] == [2]


def test_two_agents_do_not_share_a_spool(config_file: Path) -> None:
    first = Bench(config_file)
    document = yaml.safe_load(config_file.read_text())
    spool = {"dir": str(load(config_file).samples.spool.dir)}
    document |= {"state_dir": f"{config_file.parent}/state-2", "samples": {"spool": spool}}
    config_file.write_text(yaml.safe_dump(document))

    with pytest.raises(OutputError, match="another process writes there"):
        Bench(config_file)

    first.agent.close()


def test_an_address_that_cannot_be_had_frees_the_spool(config_file: Path) -> None:
    text = config_file.read_text()
    config_file.write_text(text.replace("127.0.0.1:0", "256.0.0.1:0"))
    bench = Bench(config_file)

    with pytest.raises(SourceError, match=r"cannot listen on '256\.0\.0\.1:0'"):
        asyncio.run(bench.agent.run())

    Bench(config_file).agent.close()
