"""`replay` of inputs other than clients' logs and captures."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent.cli import main
from agent.cli.replay import replay

_GOLDEN = Path(__file__).parents[2] / "golden"
_BROKER_LOG = str(_GOLDEN / "broker_log" / "kafka-4.3.0" / "input.log")
_STATS = str(_GOLDEN / "librdkafka_stats" / "eager" / "input.jsonl")
_CAPTURE = str(_GOLDEN / "incidents" / "groups" / "admin-conn.pcap")


_AUDIT_1 = "audit-1-ae56fce7-ace9-4a34-9456-3acaf0c1683b"
_CLIENT_SAYS = (
    (
        "03:58,815",
        f"Request joining group due to: need to re-join with the given member-id: {_AUDIT_1}",
    ),
    ("03:59,131", "Successfully synced group in generation {1}"),
    ("03:59,132", "Adding newly assigned partitions: audit-0"),
    ("04:00,035", "Request joining group due to: group is already rebalancing"),
    ("04:00,147", "Successfully synced group in generation {2}"),
    ("04:00,150", "Request joining group due to: need to revoke partitions [audit-0] as indicated"),
    ("04:01,154", "Successfully synced group in generation {3}"),
    ("04:01,155", "Adding newly assigned partitions: "),
)
"""What audit-1 of the broker's recording prints of itself."""


def _client_log(folder: Path) -> Path:
    lines = "".join(
        f"[2026-11-21 14:{at}] INFO [Consumer clientId=audit-1, groupId=audit] {text}\n"
        for at, text in _CLIENT_SAYS
    )
    for generation in "123":
        named = f"generationId={generation}, memberId='{_AUDIT_1}', protocol='x'"
        lines = lines.replace(f"{{{generation}}}", f"Generation{{{named}}}")
    log = folder / "app.log"
    log.write_text(lines)
    return log


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


def test_a_clients_own_words_come_before_its_brokers(tmp_path: Path) -> None:
    log, both = _client_log(tmp_path), ("--source", "logs", "--timezone", "UTC")

    rows = _rows(*both, str(log), f"broker_log:{_BROKER_LOG}")

    moved = {
        name: [row["to"] for row in rows if (row["group"], row["client_id"]) == ("audit", name)]
        for name in ("audit-1", "audit-2")
    }
    assert moved == {"audit-1": [2, 0, 1, 10, 0], "audit-2": [2, 0, 1, 0]}
    assert [row["ts"] for row in rows] == sorted(row["ts"] for row in rows)


def test_each_path_may_name_its_source(tmp_path: Path) -> None:
    paths = (f"logs:{_client_log(tmp_path)}", f"broker_log:{_BROKER_LOG}", f"stats:{_STATS}")

    rows = _rows("--timezone", "UTC", "--group", "payments", *paths)

    assert {row["source"] for row in rows} == {"logs", "broker_log", "stats"}


def test_stdin_without_a_source_is_one_sentence() -> None:
    result = CliRunner().invoke(replay, ["-"])

    assert result.exit_code == 2
    assert "PATH -: found no source, wanted --source SOURCE" in result.stderr


def test_files_show_their_source(tmp_path: Path) -> None:
    packed = tmp_path / "broker.log.gz"
    packed.write_bytes(gzip.compress(Path(_BROKER_LOG).read_bytes()))
    files = (str(_client_log(tmp_path)), str(packed), _STATS, _CAPTURE)

    result = CliRunner().invoke(replay, ["--timezone", "UTC", "--group", "payments", *files])

    notes = [line.split(": read as ")[1] for line in result.stderr.splitlines() if "by its" in line]
    assert [note.split()[1].rstrip(",") for note in notes] == [
        "logs",
        "broker_log",
        "stats",
        "pcap",
    ]
    sources = {json.loads(line)["source"] for line in result.stdout.splitlines()}
    assert sources == {"logs", "broker_log", "stats"}  # the capture has an admin client alone


@pytest.mark.parametrize("source", [(), ("--source", "logs"), ("--source", "pcap")])
def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path, source: tuple[str, ...]) -> None:
    missing = tmp_path / "no.log"

    result = CliRunner().invoke(main, ["replay", *source, str(missing)])

    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {missing}: ")
    assert "Errno" not in result.stderr


@pytest.mark.parametrize("damage", ["broken off", "checksum", "bytes behind its end"])
def test_a_damaged_file_shows_its_source_by_what_can_be_read(tmp_path: Path, damage: str) -> None:
    """A short file ended with the error alone; with a source, its lines were read."""
    packed = gzip.compress(_client_log(tmp_path).read_bytes())
    log = tmp_path / "damaged.log.gz"
    log.write_bytes(
        {
            "broken off": packed[:-12],
            "checksum": packed[:-8] + bytes(8),
            "bytes behind its end": packed + b"GARBAGE",
        }[damage]
    )

    done = CliRunner().invoke(replay, [str(log)])
    named = CliRunner().invoke(replay, ["--source", "logs", str(log)])

    assert (done.stdout, done.exit_code) == (named.stdout, named.exit_code)
    assert (bool(done.stdout), done.exit_code) == (True, 1)
    assert "read as --source logs" in done.stderr


def test_a_brokers_line_is_explained() -> None:
    arguments = ("--source", "broker_log", "--timezone", "UTC", "--explain-line", _BROKER_LOG)

    lines = _replayed(*arguments).splitlines()

    assert "no rule" in lines
    read = "kafka-broker-classic-2.8-4.3/expired: raise UnknownMember"
    assert any(line.startswith(read) for line in lines)


def test_statistics_are_read_for_the_group_that_is_named() -> None:
    rows = _rows("--source", "stats", "--group", "payments", "--signals", _STATS)

    assert {row["group"] for row in rows} == {"payments", ""}  # the last record is the agent's own
    assert {row["to"] for row in rows if row["kind"] == "transition"} == {0, 1, 5}
    assert any("suspected straggler" in row["reason"] for row in rows if row["kind"] == "signal")
