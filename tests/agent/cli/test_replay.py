import gzip
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.cli import main
from agent.cli.explain import explain
from agent.cli.replay import replay

GOLDEN = Path(__file__).parent.parent.parent / "golden" / "dialects"
RECORDED = GOLDEN / "java-consumer-3.0-4.3" / "input.log"
SEEN = (
    "2026-11-21 06:00:01,000 INFO [Consumer clientId=c, groupId=g] "
    "Request joining group due to: group is already rebalancing\n"
)
OURS = "2026-11-21 06:00:00,000 INFO [Consumer clientId=c, groupId=g] our wrapper kicks\n"


def run(*arguments: object, stdin: bytes | None = None) -> Result:
    options = ["--source", "logs", "--timezone", "UTC", *map(str, arguments)]
    return CliRunner().invoke(replay, options, input=stdin, catch_exceptions=False)


def rows(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_transitions_are_in_the_sample_schema_by_time() -> None:
    found = rows(run(RECORDED))

    assert {row["schema"] for row in found} == {1}
    assert {row["kind"] for row in found} == {"transition"}
    assert [row["ts"] for row in found] == sorted(str(row["ts"]) for row in found)
    assert len({row["id"] for row in found}) == len(found) > 0


def test_a_rotated_set_is_one_stream_the_oldest_first(tmp_path: Path) -> None:
    lines = RECORDED.read_bytes().splitlines(keepends=True)
    (tmp_path / "app.log").write_bytes(b"".join(lines[20:]))
    (tmp_path / "app.log.1").write_bytes(b"".join(lines[10:20]))
    (tmp_path / "app.log.2.gz").write_bytes(gzip.compress(b"".join(lines[:10])))

    found = rows(run(*(tmp_path / name for name in ("app.log", "app.log.1", "app.log.2.gz"))))

    whole = rows(run(RECORDED))
    assert [(r["ts"], r["client_id"], r["to"]) for r in found] == [
        (r["ts"], r["client_id"], r["to"]) for r in whole
    ]


def test_text_is_a_line_for_people() -> None:
    lines = run("--format", "text", RECORDED).stdout.splitlines()

    assert len(lines) == len(rows(run(RECORDED)))
    assert "0 -> 2 NewMember" in lines[0]


def test_no_control_character_reaches_the_terminal(tmp_path: Path) -> None:
    """Names and reasons come from outside: they must not control the terminal."""
    log = tmp_path / "app.log"
    text = RECORDED.read_text().replace(
        "groupId=g-join-3.0.2", "groupId=g\x1b]0;x\x07\x08owned\x07\u202e"
    )
    log.write_text(text)

    printed = run("--format", "text", log).stdout + run("--explain-line", log).stdout
    records = run(log).stdout.encode()
    got = CliRunner().invoke(explain, ["g\x08owned\x07\u202e", "--from", "-"], input=records)
    unknown = CliRunner().invoke(main, ["explain", "h", "--from", "-"], input=records)

    for shown in (printed, got.stdout, unknown.stderr):
        assert r"g\x08owned\x07\u202e" in shown
        assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_explain_line_of_a_log_that_is_not_read_names_the_next_step(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("INFO hello\n")

    assert "replay without --explain-line" in run("--explain-line", log).stdout


def test_explain_line_names_the_rule_and_shows_what_none_reads(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text(OURS.replace("our wrapper kicks", "(Re-)joining group") + OURS)

    summary = f"{log}: 2 lines, 1 read\n    1 by java-consumer-3.0-4.3\n"
    printed = run("--explain-line", log).stdout.removeprefix(summary)

    assert printed.startswith("java-consumer-3.0-4.3/joining: join, 2026-11-21T06:00:00")
    assert f"no rule\n    {OURS}" in printed
    read = run("--explain-line", "--only-read", log).stdout.removeprefix(summary)
    unread = run("--explain-line", "--only-unread", log).stdout.removeprefix(summary)
    assert read + unread == printed
    assert unread == f"no rule\n    {OURS}"


def test_log_that_announces_a_cause_alone_is_not_silent(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text(
        "2026-11-21 06:00:00,000 ERROR [Consumer clientId=c, groupId=g] Offset commit failed on "
        "partition t-0 at offset 12: The coordinator is not aware of this member.\n"
    )

    result = run(log)

    assert result.stdout == ""
    assert "no member came of them" in result.stderr


@pytest.mark.parametrize("option", ["--only-read", "--only-unread"])
def test_choice_of_lines_needs_explain_line(option: str) -> None:
    result = CliRunner().invoke(main, ["replay", "--source", "logs", option, str(RECORDED)])

    assert result.exit_code == 2
    assert "need --explain-line" in result.stderr


def test_explain_line_shows_why_a_line_has_no_effect(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text(
        "2026-11-21 06:00:00,000 WARNING Heartbeat: local member_id was not recognized; this "
        "consumer needs to re-join\n"
    )

    printed = run("--explain-line", log).stdout

    assert "1 without an effect" in printed
    assert "no effect (waits for a line that names its client)" in printed
    assert "raise" not in printed


def test_group_of_the_option_is_that_of_clients_that_name_none(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text(
        "%4|1795242824.000|MAXPOLL|c#consumer-1| [thrd:main]: Application maximum poll interval "
        "(300000ms) exceeded by 88ms (adjust max.poll.interval.ms for long-running message "
        "processing): leaving group\n"
    )

    assert '"group":"payments"' in run("--group", "payments", log).stdout


def test_a_rule_of_the_configuration_reads_too(tmp_path: Path) -> None:
    log, config = tmp_path / "app.log", tmp_path / "agent.yaml"
    log.write_text(OURS)
    config.write_text(
        "timezone: UTC\n"
        "apps: {shop: [g]}\n"
        "sources:\n"
        "  - {type: logs, paths: [a], rules: [{text: our wrapper kicks, raise: UserRequested}]}\n"
    )

    (found,) = rows(run("-c", config, log))

    assert (found["to"], found["app"]) == (6, "shop")


def test_lines_that_are_too_long_to_read_are_noted(tmp_path: Path) -> None:
    log, long = tmp_path / "app.log", b"x" * (3 << 20) + b"\n"
    log.write_bytes(long + RECORDED.read_bytes() + long)

    result = run(log)

    assert result.stdout.count("\n") == run(RECORDED).stdout.count("\n")
    assert f"{log}: 2 lines are longer than 1 MiB, and not read" in result.stderr


def test_a_path_that_is_no_file_is_one_sentence(tmp_path: Path) -> None:
    result = CliRunner().invoke(replay, ["--source", "logs", str(tmp_path / "none.log")])

    assert "none.log: found nothing, wanted a log file; - is stdin" in str(result.exception)


def test_a_file_that_breaks_off_is_an_error_and_loses_nothing_else(tmp_path: Path) -> None:
    """Neither the lines before the damage, nor the files after it, nor other logs."""
    lines = RECORDED.read_bytes().splitlines(keepends=True)
    packed = gzip.compress(b"".join(lines[:10]), mtime=0)
    cut, rest, other = (tmp_path / name for name in ("app.log.1.gz", "app.log", "other.log"))
    cut.write_bytes(packed[:-8])
    rest.write_bytes(b"".join(lines[10:]))
    other.write_text(OURS + SEEN.replace("clientId=c", "clientId=d"))

    broken = run(cut, rest, other)
    cut.write_bytes(packed)
    sound = run(cut, rest, other)

    assert broken.stdout == sound.stdout
    assert (broken.exit_code, sound.exit_code) == (1, 0)
    assert broken.stderr == (
        f"Error: {cut}: Compressed file ended before the end-of-stream marker was reached\n"
    )


@pytest.mark.parametrize("year", [1970, 1980])
def test_a_file_whose_time_an_archive_did_not_keep_is_read_by_its_stamps(
    tmp_path: Path, year: int
) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(RECORDED.read_bytes())
    at = datetime(year, 1, 1, tzinfo=UTC).timestamp()
    os.utime(log, (at, at))

    assert [row["ts"] for row in rows(run(log))] == [row["ts"] for row in rows(run(RECORDED))]


def test_a_name_that_is_no_text_is_written_as_one(tmp_path: Path) -> None:
    log = tmp_path / os.fsdecode(b"\xff.log")
    log.write_bytes(RECORDED.read_bytes())

    assert len(rows(run(log))) == len(rows(run(RECORDED)))


def test_a_file_that_does_not_unpack_is_an_error(tmp_path: Path) -> None:
    log = tmp_path / "app.log.gz"
    log.write_bytes(gzip.compress(OURS.encode(), mtime=0)[:10] + b"\xff" * 99)

    found = run(log)

    assert found.exit_code == 1
    assert f"Error: {log}: Error -3 while decompressing data" in found.stderr


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (
            "logs",
            (
                "no line of a known client was read; it looks like no client of Kafka "
                "('2026-11-21 06:00:00,000 INFO something else'); rebalance-agent dialects lists "
                "those that are known"
            ),
        ),
        (
            "broker_log",
            (
                "found no line of a broker's group coordinator; it looks like no log of a broker "
                "('2026-11-21 06:00:00,000 INFO something else')"
            ),
        ),
        ("stats", "found no statistics of librdkafka, which are JSON, an object a line"),
    ],
)
def test_a_file_of_which_nothing_is_known_is_said_to_be_one(
    tmp_path: Path, source: str, wanted: str
) -> None:
    log = tmp_path / "app.log"
    log.write_text("2026-11-21 06:00:00,000 INFO something else\n")

    result = CliRunner().invoke(replay, ["--source", source, str(log)])

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{log}: {wanted}\n"


BROKER = "INFO [GroupCoordinator 0]: Group g with generation 7 is now empty"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("[2026-11-20 13:20:05,123] INFO [Consumer clientId=c, groupId=g] x", "--source logs"),
        ('{"name":"rdkafka#consumer-1","rebalance_cnt":0}', "--source stats"),
        (
            "[2026-11-20 13:20:05,123] INFO [KafkaServer id=0] started",
            "set the loggers kafka.coord",
        ),
        (f"somewhen {BROKER}", "1 of 1 lines have no time that is understood"),
        (f"[2040-11-20 13:20:05,123] {BROKER}", "1 lines have a time more than a day ahead"),
    ],
)
def test_what_is_wrong_with_a_brokers_log_is_said(line: str, wanted: str, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(f"{line}\n")

    result = CliRunner().invoke(replay, ["--source", "broker_log", "--timezone", "UTC", str(log)])

    assert result.exit_code == 0
    assert wanted in result.stderr


CONSUMER = "2026-11-20 13:20:05,123 INFO [Consumer clientId=c, groupId=g]"
SYNCED = (
    "Successfully synced group in generation Generation{generationId=7, memberId='c-1', "
    "protocol='range'}"
)


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ([SYNCED], "no status changed: members were read, and no line shows a cause\n"),
        (
            [SYNCED, "(Re-)joining group", SYNCED.replace("7", "8")],
            "no status changed: 1 rebalances show no cause; --signals prints them\n",
        ),
    ],
)
def test_nothing_printed_has_its_reason(lines: list[str], wanted: str, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("".join(f"{CONSUMER} {line}\n" for line in lines))

    result = run(log)

    assert (result.stdout, result.stderr) == ("", wanted)


def test_of_what_is_known_nothing_is_said() -> None:
    assert run(RECORDED).stderr == ""


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_log_in_utf_16_is_read_as_one_in_utf_8(encoding: str, tmp_path: Path) -> None:
    log, same = tmp_path / "app.log", tmp_path / "same.log"
    text = RECORDED.read_text()
    log.write_bytes(("\ufeff" if encoding == "utf-16-be" else "").encode(encoding))
    log.write_bytes(log.read_bytes() + text.encode(encoding))
    same.write_text(text)

    moves = [
        [(row["ts"], row["to"]) for row in map(json.loads, run(path).stdout.splitlines())]
        for path in (log, same)
    ]

    assert moves[0] == moves[1] != []


def test_text_of_a_signal_says_where_the_member_was() -> None:
    lines = run("--format", "text", "--signals", RECORDED).stdout.splitlines()

    assert [line for line in lines if "lost" in line] == []
    assert any(" at " in line for line in lines)


def test_a_brokers_log_that_names_no_member_is_said_to_be_one(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "[2026-11-21 06:00:00,000] INFO [GroupCoordinator 1]: Preparing to rebalance group pay in "
        "state PreparingRebalance with old generation 1 (__consumer_offsets-0) (reason: "
        "Freshly-loaded group is over capacity (2). Rebalacing in order to give a chance for "
        "consumers to commit offsets) (kafka.coordinator.group.GroupCoordinator)\n"
    )

    found = run("--source", "broker_log", log)

    assert not [row for row in rows(found) if row["kind"] == "transition"]
    assert "1 lines of a group coordinator were read, and no member came of them" in found.stderr
