"""`replay` of what is neither a client's log nor a capture."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from agent.cli.replay import replay

_GOLDEN = Path(__file__).parents[2] / "golden"
_BROKER_LOG = str(_GOLDEN / "broker_log" / "kafka-4.3.0" / "input.log")
_STATS = str(_GOLDEN / "librdkafka_stats" / "eager" / "input.jsonl")


def _replayed(*arguments: str) -> str:
    result = CliRunner().invoke(replay, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def _rows(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _replayed(*arguments).splitlines()]


def test_a_brokers_log_is_read_like_any_other() -> None:
    rows = _rows("--source", "broker_log", "--timezone", "UTC", _BROKER_LOG)

    moved = [row["to"] for row in rows if (row["group"], row["client_id"]) == ("audit", "audit-1")]
    assert moved == [2, 0, 1, 0, 10, 0]
    assert {row["source"] for row in rows} == {"broker_log"}
    assert [row["ts"] for row in rows] == sorted(row["ts"] for row in rows)


def test_a_brokers_line_is_explained() -> None:
    arguments = ("--source", "broker_log", "--timezone", "UTC", "--explain-line", _BROKER_LOG)

    lines = _replayed(*arguments).splitlines()

    assert lines[0] == "no rule"
    read = "kafka-broker-classic-2.8-4.3/expired: raise UnknownMember"
    assert any(line.startswith(read) for line in lines)


def test_statistics_are_read_for_the_group_that_is_named() -> None:
    rows = _rows("--source", "stats", "--group", "payments", "--signals", _STATS)

    assert {row["group"] for row in rows} == {"payments"}
    assert {row["to"] for row in rows if row["kind"] == "transition"} == {0, 1, 5}
    assert any("suspected straggler" in row["reason"] for row in rows if row["kind"] == "signal")
