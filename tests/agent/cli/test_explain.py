import gzip
import json
import os
import tracemalloc
from datetime import datetime
from pathlib import Path
from threading import Event, Thread

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from agent.cli import main
from agent.client import record_files
from agent.client.record_files import read_records
from metrics.model.names import NAME_MAX_CHARS
from metrics.model.sample import decode, encode
from tests.aggregation.rebalances.test_rebalances import (
    NEW,
    START,
    A,
    B,
    C,
    left,
    records,
    round_of,
)

LINES = b"".join(
    encode(record)
    for record in records(
        *START, left(100.0, A, "closed"), *round_of(2, 101.0, B, C, causes={"z": NEW})
    )
)
LAST = (
    "1970-01-01 00:01:40.000     1.500 s  UserRequested        a on h-a: closed"
    "; cost 800 ms of its members' time; departed: a: left"
)


_ANY_WIDTH = {"COLUMNS": "0"}


def explain(*args: str, stdin: bytes | None = None) -> Result:
    command = ["explain", "--verbose", *args]
    return CliRunner().invoke(main, command, input=stdin, env=_ANY_WIDTH)


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    (tmp_path / "1.jsonl").write_bytes(LINES)
    return tmp_path


def test_answer_timeline_and_advice(spool: Path) -> None:
    found = explain("g", "--from", str(spool), "--last", "1")

    assert found.exit_code == 0
    answer, _, title, _, _, timeline, line, _, advice, *_ = found.stdout.splitlines()
    assert answer.startswith("g: nothing is ongoing; last, ")
    assert "The last 1 of 2 incidents with 1 rebalance" in answer
    assert title == "Incidents (UTC), the last 1 of 2"
    assert (timeline, line.strip(), advice) == ("Timeline (UTC)", LAST, "What to do")


def test_incidents_stand_alone_without_verbose(spool: Path) -> None:
    found = CliRunner().invoke(main, ["explain", "g", "--from", str(spool), "--since", "30d"])

    assert "Incidents (UTC)" in found.stdout
    assert "Timeline" not in found.stdout


def test_lines_fit_the_terminal(spool: Path) -> None:
    found = CliRunner().invoke(main, ["explain", "g", "--from", str(spool)], env={"COLUMNS": "60"})

    assert max(map(len, found.stdout.splitlines())) <= 60


def test_three_recommendations_are_shown_and_the_rest_on_request(spool: Path) -> None:
    dropped = records(
        *round_of(3, 200.0, B, C, causes={"b": (5, "consumer poll timeout has expired.")})
    )
    (spool / "2.jsonl").write_bytes(b"".join(map(encode, dropped)))
    plain = ["explain", "g", "--from", str(spool)]
    short = CliRunner().invoke(main, plain, env=_ANY_WIDTH).stdout
    whole = explain("g", "--from", str(spool)).stdout

    assert short.partition("What to do")[2].count("\n  - ") == 3
    assert short.endswith(" more: --verbose\n")
    assert whole.partition("What to do")[2].count("\n  - ") > 3


def test_duration_that_is_none_is_refused(spool: Path) -> None:
    found = explain("g", "--from", str(spool), "--since", "soon")

    assert found.exit_code == 2
    assert "--since: found 'soon', wanted a duration such as 30s" in found.output


@pytest.mark.parametrize("name", ["2.jsonl", "2.jsonl.gz", ".2.jsonl.part"])
def test_every_file_of_a_spool_counts(tmp_path: Path, name: str) -> None:
    half = LINES.find(b"\n", len(LINES) // 2) + 1
    rest = gzip.compress(LINES[half:]) if name.endswith(".gz") else LINES[half:]
    (tmp_path / "1.jsonl").write_bytes(LINES[:half])
    (tmp_path / name).write_bytes(rest)

    assert LAST in explain("g", "--from", str(tmp_path)).stdout


def test_a_spool_that_is_written_meanwhile_is_read_whole(tmp_path: Path) -> None:
    """A file is published by its name: it was in neither list, or gone when it was opened."""
    lines = LINES.splitlines(keepends=True)
    (tmp_path / "0.jsonl").write_bytes(lines[0])
    over = Event()

    def write() -> None:
        for number in range(1, 1_000):
            part = tmp_path / f".{number}.jsonl.part"
            part.write_bytes(lines[0])
            part.rename(tmp_path / f"{number}.jsonl")
        over.set()

    writing = Thread(target=write)
    writing.start()
    seen = [0]
    try:
        while not over.is_set():
            seen.append(len(read_records(str(tmp_path), "g").records))
    finally:
        writing.join()

    assert seen == sorted(seen)
    assert len(read_records(str(tmp_path), "g").records) == 1_000


NO_CODE = LINES.splitlines()[0].replace(b'"to":', b'"to":9')


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{torn", "JSON is malformed"),
        (b'{"id":"\xff"}', "'utf-8' codec can't decode byte 0xff"),
        (b'{"x":' + b"[" * 100_000, "nested too deeply"),
        (NO_CODE, "92 is no status code"),
        (LINES.splitlines()[0].replace(b'"ts":"1970', b'"ts":"1969'), "is before 1970"),
    ],
)
def test_a_line_that_is_no_record_is_named_and_left_out(
    spool: Path, line: bytes, reason: str
) -> None:
    (spool / "0.jsonl").write_bytes(LINES.splitlines()[0] + b"\n" + line + b"\n")

    found = explain("g", "--from", str(spool))

    count, first = found.stderr.splitlines()
    assert (found.exit_code, count) == (0, "1 lines were no record and were left out")
    assert first.startswith(f"  the first: {spool / '0.jsonl'}, line 2: ")
    assert reason in first
    assert LAST in found.stdout


def test_a_record_of_the_year_9999_stretches_no_incident(spool: Path) -> None:
    before = explain("g", "--from", str(spool), "--output", "json")
    ahead = msgspec.structs.replace(
        decode(LINES.splitlines()[0]), ts="9999-12-30T23:59:59.000000Z", id="x"
    )
    (spool / "9.jsonl").write_bytes(encode(ahead))

    found = explain("g", "--from", str(spool), "--output", "json")

    assert found.stdout == before.stdout
    assert found.stderr.splitlines() == [
        "1 records are more than a day ahead and were left out",
        f"  the first: 9999-12-30T23:59:59.000000Z of agent {ahead.agent!r}",
    ]


def test_where_all_records_are_ahead_this_clock_is_behind(tmp_path: Path) -> None:
    records = map(decode, LINES.splitlines())
    ahead = [msgspec.structs.replace(each, ts=f"9998{each.ts[4:]}") for each in records]
    (tmp_path / "1.jsonl").write_bytes(b"".join(map(encode, ahead)))

    found = explain("g", "--from", str(tmp_path))

    assert (found.exit_code, found.stderr) == (0, "")
    assert "9998-" in found.stdout


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (gzip.compress(LINES, mtime=0)[:-9], "Compressed file ended before the end-of-stream"),
        (b"no gzip", "Not a gzipped file (b'no')"),
        (gzip.compress(LINES, mtime=0)[:10] + b"\xff" * 99, "Error -3 while decompressing data"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_and_loses_no_other(
    spool: Path, data: bytes, said: str
) -> None:
    broken = spool / "0.jsonl.gz"
    broken.write_bytes(data)

    found = explain("g", "--from", str(spool))

    assert LAST in found.stdout
    assert found.exit_code == 1
    assert found.stderr.startswith(f"Error: {broken}: {said}")


def test_where_nothing_is_known_what_could_not_be_read_is_told_too(tmp_path: Path) -> None:
    broken = tmp_path / "0.jsonl.gz"
    broken.write_bytes(b"no gzip")

    found = explain("g", "--from", str(broken))

    assert found.exit_code == 1
    assert found.stderr.splitlines() == [
        f"Error: {broken}: Not a gzipped file (b'no')",
        "no record of group 'g'; groups that were seen: none",
    ]


def test_a_pipe_in_a_spool_is_left_alone_and_one_that_is_named_is_read(spool: Path) -> None:
    plain = explain("g", "--from", str(spool)).stdout
    pipe = spool / "0.jsonl"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=[LINES])

    assert explain("g", "--from", str(spool)).stdout == plain
    writer.start()
    assert explain("g", "--from", str(pipe)).stdout == plain
    writer.join()


def test_a_log_in_place_of_records_is_named(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text("[Consumer clientId=a, groupId=g] Successfully joined\n")

    found = explain("g", "--from", str(tmp_path / "app.log"))

    assert found.exit_code == 1
    assert "no line is a record; for a log or a capture, run: rebalance-agent" in found.stderr


def test_lines_on_stdin() -> None:
    assert LAST in explain("g", "--from", "-", stdin=LINES).stdout


def test_tables(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in LINES.splitlines()]
    table = pa.Table.from_pylist(rows)
    times = pa.array([row["ts"].removesuffix("Z") for row in rows]).cast(pa.timestamp("us"))
    table = table.set_column(
        table.column_names.index("ts"), "ts", times.cast(pa.timestamp("us", "UTC"))
    )
    pq.write_to_dataset(table, tmp_path / "transitions")

    assert LAST in explain("g", "--from", str(tmp_path)).stdout


def test_rebalance_in_tables_goes_on_while_the_periodic_samples_of_its_agent_do(
    tmp_path: Path,
) -> None:
    moves = [each for each in map(json.loads, LINES.splitlines()) if each["kind"] == "transition"]
    opened = next(n for n, each in enumerate(moves) if each["from"] == 0 and n > 5)
    first, later = moves[0]["ts"][:10], "1970-01-01T05:00:00Z"
    rows = [each | {"agent": "one"} for each in moves[: opened + 1]]
    other = rows[0] | {"id": "x", "client_id": "other", "group": "other", "agent": "two"}
    elsewhere = [rows[0] | {"id": "y", "agent": "two", "client_id": "z", "ts": later, "to": 0}]
    sample = other | {"kind": "sample", "ts": later, "agent": "one"}

    def going_on(name: str, samples: list[dict[str, object]]) -> bool:
        for table, written_rows in (("transitions", rows + elsewhere), ("samples", samples)):
            times = pa.array([str(each["ts"]).removesuffix("Z") for each in written_rows])
            column = times.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
            written = pa.Table.from_pylist(written_rows)
            written = written.set_column(written.column_names.index("ts"), "ts", column)
            written = written.append_column("day", pa.array([first] * len(written_rows)))
            pq.write_to_dataset(written, tmp_path / name / table, partition_cols=["day"])
        found = explain("g", "--from", str(tmp_path / name), "--output", "json")
        return any(each["is_open"] for each in json.loads(found.stdout)["happened"])

    assert going_on("alive", [sample])
    assert not going_on("gone", [sample | {"agent": "two"}])
    own = rows[opened] | {"kind": "sample", "ts": later, "episode": None}
    assert not going_on("at-0", [sample, own | {"to": 0}])
    assert going_on("not-at-0", [sample, own])


@pytest.mark.parametrize("column", [False, True])
def test_tables_with_the_day_in_their_files_too(tmp_path: Path, *, column: bool) -> None:
    """Delta and Iceberg write the column of the partition, as a date."""
    rows = [json.loads(line) for line in LINES.splitlines()]
    times = pa.array([row["ts"].removesuffix("Z") for row in rows])
    table = pa.Table.from_pylist(rows)
    at = times.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    table = table.set_column(table.column_names.index("ts"), "ts", at)
    if column:
        table = table.append_column("day", at.cast(pa.date32()))
    folder = tmp_path / "transitions" / "day=1970-01-01"
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "part-0.parquet")

    assert LAST in explain("g", "--from", str(tmp_path)).stdout


def write_table(folder: Path, **changed: object) -> Path:
    """Write a table with one more record, which differs from the first one in some fields."""
    rows = [json.loads(line) for line in LINES.splitlines()]
    rows.append(rows[0] | {"id": "other"} | changed)
    times = [row["ts"] and datetime.fromisoformat(row["ts"]) for row in rows]
    table = pa.Table.from_pylist(rows)
    column = pa.array(times, pa.timestamp("us", "UTC"))
    table = table.set_column(table.column_names.index("ts"), "ts", column)
    path = folder / "transitions" / "day=1970-01-01" / "part-0.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize(
    "changed",
    [{"kind": "new"}, {"ts": None}, {"to": 99}, {"cluster": None}, {"generation": -(1 << 63)}],
)
def test_row_of_a_table_that_is_no_record_is_counted(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    write_table(tmp_path, **changed)

    found = explain("g", "--from", str(tmp_path))

    is_record = "generation" in changed
    assert LAST in found.stdout
    assert ("1 lines were no record and were left out" in found.stderr) == (not is_record)


def test_broken_file_of_a_table_is_named_and_the_rest_is_answered(tmp_path: Path) -> None:
    broken = write_table(tmp_path).with_name("part-1.parquet")
    broken.write_bytes(b"PAR1" * 5)
    unfinished = tmp_path / "transitions" / "_temporary" / "part-2.parquet"
    unfinished.parent.mkdir()
    unfinished.touch()

    found = explain("g", "--from", str(tmp_path))

    assert (found.exit_code, LAST in found.stdout) == (1, True)
    assert found.stderr == f"Error: {broken}: is broken or no Parquet file\n"


def test_table_with_a_time_that_no_calendar_has_is_one_sentence(tmp_path: Path) -> None:
    path = write_table(tmp_path)
    table = pq.read_table(path, partitioning=None)
    last = pa.array([(1 << 63) - 1] * len(table), pa.int64()).cast(pa.timestamp("us", "UTC"))
    pq.write_table(table.set_column(table.column_names.index("ts"), "ts", last), path)

    found = explain("g", "--from", str(tmp_path))

    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr.startswith(f"Error: {tmp_path}: ")


def test_json_holds_the_same(spool: Path) -> None:
    got = json.loads(explain("g", "--from", str(spool), "--output", "json").stdout)

    assert [each["status"] for each in got["happened"]] == ["NewMember", "UserRequested"]
    assert got["happened"][1]["departures"] == ["a: left"]


def test_at_names_the_one_that_ran(spool: Path) -> None:
    found = explain("g", "--from", str(spool), "--at", "1970-01-01T00:00:30Z")

    assert "last, 1970-01-01 00:00:00: a, b, c joined, 0.5 s. 1 incident with" in found.stdout


def test_at_before_the_first_one_says_so(spool: Path) -> None:
    found = explain("g", "--from", str(spool), "--at", "1969-12-31T23:00:00Z")

    wanted = "g had not rebalanced by 1970-01-01 00:00:00 UTC, as far as was seen."
    assert (found.exit_code, found.stdout.strip()) == (0, wanted)


def test_torn_line_is_left_out_and_told(spool: Path) -> None:
    (spool / "2.jsonl").write_bytes(LINES[:100])

    found = explain("g", "--from", str(spool))

    assert found.exit_code == 0
    assert "1 lines were no record" in found.stderr


def test_of_a_line_without_end_a_part_is_held(tmp_path: Path) -> None:
    path = tmp_path / "1.jsonl.gz"
    path.write_bytes(gzip.compress(b"x" * (64 << 20) + b"\n" + LINES))

    tracemalloc.start()
    found = read_records(str(path), "g")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (len(found.records), found.malformed) == (LINES.count(b"\n"), 1)
    assert found.first_malformed.startswith(f"{path}, line 1: ")
    assert peak < 16 << 20


def test_long_texts_of_records_are_clipped(tmp_path: Path) -> None:
    """A packed file of 3 MB held 2,000 reasons of a MiB, and took gigabytes."""
    path = tmp_path / "1.jsonl.gz"
    known = json.loads(LINES.splitlines()[0])
    with gzip.open(path, "wb", 1) as file:
        for number in range(64):
            long = {"reason": "r" * 500_000, "group": "g" * 500_000} if number % 2 else {}
            record = {**known, "id": f"{number:032x}", "client_id": "c" * 500_000, **long}
            file.write(json.dumps(record).encode() + b"\n")

    tracemalloc.start()
    found = read_records(str(path), "g")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(found.records) == 32
    assert {len(each.client_id or "") for each in found.records} == {NAME_MAX_CHARS}
    assert {len(each) for each in found.groups} == {1, NAME_MAX_CHARS}
    assert peak < 16 << 20


@pytest.mark.parametrize(
    ("args", "exit_code", "text"),
    [
        (["h", "--from", "SPOOL"], 1, "no record of group 'h'; groups that were seen: g"),
        (["g", "--from", "/nowhere"], 1, "/nowhere: found no such file or folder"),
        (["g", "--from", "SPOOL/empty"], 1, "found no *.jsonl of a spool and no tables in it"),
        (
            ["g", "--from", "http://127.0.0.1:9"],
            1,
            "127.0.0.1:9: Connection refused; wanted a running agent",
        ),
        (["g", "--at", "noon"], 2, "found 'noon', wanted an ISO time"),
        (["g", "--last", "0"], 2, "--last"),
    ],
)
def test_error_says_what_was_wanted(
    spool: Path, args: list[str], exit_code: int, text: str
) -> None:
    (spool / "empty").mkdir()

    found = explain(*[arg.replace("SPOOL", str(spool)) for arg in args])

    assert (found.exit_code, text in found.stderr) == (exit_code, True)


def test_of_too_many_records_the_newest_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A packed file of 8 MB with 10,000 times the same records took 500 MB."""
    monkeypatch.setattr(record_files, "RECORDS_MAX", 10)
    log = Path("tests/golden/dialects/java-consumer-3.0-4.3/input.log")
    replayed = CliRunner().invoke(main, ["replay", "--source", "logs", str(log)]).stdout
    lines = [line for line in replayed.splitlines() if json.loads(line)["kind"] == "transition"]
    group = json.loads(lines[0])["group"]
    lines = [line for line in lines if json.loads(line)["group"] == group]
    (tmp_path / "a.jsonl").write_text("\n".join(lines * 20) + "\n")

    found = record_files.read_records(str(tmp_path), group)
    shown = CliRunner().invoke(main, ["explain", group, "--from", str(tmp_path)])

    assert len(found.records) < 20
    assert found.older + len(found.records) == 20 * len(lines)
    assert max(each.ts for each in found.records) == max(json.loads(line)["ts"] for line in lines)
    assert f"{found.older} older records were left out" in shown.stderr
