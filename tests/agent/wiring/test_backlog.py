"""An agent that finds files of clients and of a broker gives the same result as `replay`."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from shutil import copytree

import pytest
from click.testing import CliRunner

from agent.cli.replay import replay
from agent.runtime import signal_order
from agent.runtime.checkpoint import load
from agent.sources.broker_logs.source import BrokerLogSource
from agent.sources.lines.following import rotation
from agent.sources.lines.following import tail as tail_module
from agent.sources.lines.following.tail import FileTail
from agent.sources.lines.whole_files import log_file
from agent.wiring.agent import Agent
from metrics.model.sample import Sample, SampleKind, decode
from tests.agent.wiring.test_positions import Bench

_LOGS = Path(__file__).parents[2] / "golden" / "backlog"
Codes = dict[tuple[str, str | None], list[int | None]]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    copytree(_LOGS, tmp_path, dirs_exist_ok=True)
    return Bench(tmp_path)


def codes(samples: Iterable[Sample]) -> Codes:
    found: Codes = defaultdict(list)
    for sample in sorted(samples, key=lambda each: (each.ts, each.seq)):
        if sample.kind is SampleKind.TRANSITION:
            found[sample.scope, sample.client_id].append(sample.to)
    return dict(found)


def replayed(folder: Path) -> Codes:
    paths = [f"logs:{folder}/m1.log", f"logs:{folder}/m2.log", f"broker_log:{folder}/server.log"]
    result = CliRunner().invoke(replay, ["--timezone", "UTC", *paths])
    assert result.exit_code == 0
    return codes(map(decode, result.stdout_bytes.splitlines()))


def configure(bench: Bench, *, is_broker_first: bool) -> None:
    clients = {"type": "logs", "paths": [f"{bench.folder}/m*.log"]}
    broker = {"type": "broker_log", "paths": [f"{bench.folder}/server.log"]}
    bench.configure(sources=[broker, clients] if is_broker_first else [clients, broker])


def read_in_blocks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(rotation, "FIRST_BLOCK_BYTES", size)
    for module in (log_file, tail_module):
        monkeypatch.setattr(module, "LARGE_BLOCK_BYTES", size)
    monkeypatch.setattr(log_file, "BLOCK_BYTES", size)


def read_a_part(agent: Agent) -> None:
    """Read five blocks of each file."""
    for _ in range(5):
        for tail in tails(agent):
            tail.step(agent._pipeline.emit, agent._pipeline.detach)
    for tail in tails(agent):
        for each in tail._tails.values():
            each.follower.close()


def tails(agent: Agent) -> list[FileTail]:
    return [
        source._log if isinstance(source, BrokerLogSource) else source
        for source in agent._sources
        if isinstance(source, FileTail | BrokerLogSource)
    ]


@pytest.mark.parametrize("is_broker_first", [False, True])
@pytest.mark.parametrize("block_bytes", [1 << 10, 2 << 20])
def test_two_sources_are_read_in_the_order_of_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, block_bytes: int, *, is_broker_first: bool
) -> None:
    read_in_blocks(monkeypatch, block_bytes)
    monkeypatch.setattr(signal_order, "AHEAD_MAX", 3)
    configure(bench, is_broker_first=is_broker_first)

    bench.run()

    found = replayed(bench.folder)
    assert len(found) == 2
    assert codes(bench.transitions()) == found


def test_a_restart_within_a_backlog_changes_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_in_blocks(monkeypatch, 1 << 10)
    configure(bench, is_broker_first=True)

    held = 0
    for _ in range(3):
        agent = bench.agent()
        read_a_part(agent)
        agent.close()
        checkpoint = load(bench.checkpoint)
        assert checkpoint is not None
        held += len(checkpoint.held)
    assert held
    bench.run()

    assert codes(bench.transitions()) == replayed(bench.folder)
