"""A disk that takes no more: samples wait, gauges go on; then nothing is lost or doubled."""

import os
import shutil
from pathlib import Path

from tests.faults.agent_process import AgentProcess, replayed, spooled, transitions, until
from tests.faults.full_disk import fill, in_small_disk, needs_mounts
from tests.faults.loaded_log import LoadedLog, a_round

_NO_RIGHTS = (
    ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else list[str]()
)
"""Root without its capabilities obeys a folder's mode."""
_ERRORS = "rebalance_agent_sink_errors_total"


def _logs(log: Path) -> str:
    return f"sources: [{{type: logs, paths: [{log}]}}]\n"


def test_full_disk(tmp_path: Path) -> None:
    needs_mounts()
    log = tmp_path / "app.log"
    disk = tmp_path / "agent" / "state"
    with AgentProcess(tmp_path / "agent", _logs(log), in_small_disk(disk)) as agent:
        disk.mkdir()
        agent.start_ready()
        seen = Path(f"/proc/{agent.process.pid}/root")
        with LoadedLog(log) as load:
            until(lambda: load.rounds > 20, "some rebalances")
            filler = seen / disk.relative_to("/") / "filler"
            fill(filler)
            until(lambda: agent.total(_ERRORS) > 1, "a refusal that is counted")
            assert agent.got("samples_not_durable")
            rounds = load.rounds
            until(
                lambda: agent.total("kafka_consumer_rebalances_total") > rounds,
                "metrics that go on",
            )
            assert agent.is_ready()
            filler.unlink()
            until(lambda: agent.got("samples_durable_again"), "a disk that takes samples again")
        got = replayed(log)
        until(lambda: len(transitions(agent.on_disk(seen))) >= len(got), "every sample on disk")

        assert transitions(agent.on_disk(seen)) == got
        assert agent.total("rebalance_agent_samples_dropped_total") == 0
        assert agent.drain() == 0


def test_read_only_spool(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    with AgentProcess(tmp_path / "agent", _logs(log), _NO_RIGHTS) as agent:
        agent.start_ready()
        with LoadedLog(log) as load:
            until(lambda: load.rounds > 5, "some rebalances")
            agent.spool.chmod(0o555)
            until(lambda: agent.total(_ERRORS) > 1, "a refusal that is counted")
            agent.spool.chmod(0o755)
            until(lambda: agent.got("samples_durable_again"), "a spool that takes samples again")
        rebalances = "kafka_consumer_rebalances_total"
        until(lambda: agent.total(rebalances) == load.rounds, "every rebalance read")
        assert agent.drain() == 0

    assert transitions(agent.published()) == replayed(log)


def test_a_spool_that_is_read_only_from_the_start_is_told(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path / "agent", _logs(tmp_path / "app.log"), _NO_RIGHTS)
    agent.spool.mkdir(parents=True)
    agent.spool.chmod(0o555)

    agent.start()

    assert agent.process.wait(60) == 1
    assert f"Error: spool '{agent.spool}': Permission denied" in agent.log.read_text()
    agent.spool.chmod(0o755)


def test_removed_spool_folder(tmp_path: Path) -> None:
    """The folder's lines are lost with it, except those that were not published yet."""
    log = tmp_path / "app.log"
    rebalances = "kafka_consumer_rebalances_total"
    with AgentProcess(tmp_path / "agent", _logs(log)) as agent:
        agent.start_ready()
        log.write_bytes(a_round("c1", 1))
        until(lambda: agent.total(rebalances) == 1, "the first rebalance")
        until(lambda: len(transitions(agent.published())) == 2, "a published file")
        with LoadedLog(log) as load:
            until(lambda: agent.total(rebalances) > 20, "some rebalances")
            gone = agent.spool.rename(tmp_path / "gone")  # nothing is published into it any more
            removed = transitions(spooled(gone))
            shutil.rmtree(gone)
            rounds = load.rounds
            until(lambda: agent.total(rebalances) > rounds + 20, "rebalances after it")
        until(lambda: agent.total(rebalances) == load.rounds + 1, "every rebalance read")
        assert agent.drain() == 0

    assert agent.got("spool_recreated")
    left = transitions(agent.published())
    assert len(left) == len(set(left))
    assert sorted(set(left) | set(removed)) == replayed(log)
