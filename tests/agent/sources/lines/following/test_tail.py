import asyncio
import gc
import gzip
import itertools
import os
import random
import shutil
import sys
import time
import tracemalloc
import weakref
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.errors import ConfigError, DialectError
from agent.sources.lines.following import open_tails, rotation
from agent.sources.lines.following.config import ReadFrom
from agent.sources.lines.following.tail import GONE_S, SCAN_S
from agent.sources.lines.parsing.stream_parser import HELD_MAX_S
from agent.sources.lines.whole_files.log_file import (
    BLOCK_BYTES,
    LARGE_BLOCK_BYTES,
    OpenLog,
    choose_block_bytes,
)
from agent.sources.logs import client_interpreter as interpreter
from agent.sources.logs.config import LogConfig
from agent.sources.logs.source import LogSource
from metrics.model.signals import Signal

START_AT = datetime(2026, 11, 21, 6, 0, tzinfo=UTC).timestamp()
_AT_REST_BYTES_MAX = 3_500
"""20,000 streams that were read take 70 MB at most."""
_RESTARTED_BYTES_MAX = 2_700
"""Streams without news since a restart take 54 MB at most."""


def line(number: int) -> bytes:
    """A line that raises a code; its second is its number."""
    at = datetime.fromtimestamp(START_AT + number, UTC)
    return (
        f"[{at:%Y-%m-%d %H:%M:%S},000] INFO [Consumer clientId=m1, groupId=g] Request joining "
        "group due to: group is already rebalancing (org.apache.kafka.clients.consumer)\n"
    ).encode()


def lines(*numbers: int) -> bytes:
    return b"".join(map(line, numbers))


class Bench:
    """A source on a folder, with a clock that only the test moves."""

    def __init__(self, folder: Path, pattern: str = "app.log", **config: Any) -> None:
        self.folder, self.path = folder, folder / "app.log"
        self.config = LogConfig(paths=(str(folder / pattern),), **config)
        self.now = START_AT + 10_000
        self.signals: list[Signal] = []
        self.gone: list[str] = []
        self.source = self._source(None)

    def _source(self, position: dict[str, Any] | None) -> LogSource:
        return LogSource(
            self.config, timezone="UTC", position=position, clock=lambda: self.now, host="h"
        )

    def read(self) -> list[int]:
        """Poll until nothing is new; return the numbers of the lines that were read."""
        before = len(self.signals)
        for _ in range(8):  # a rotated set is read a block of a file at a time
            while self.source.step(self.emit, self.detach):
                pass
        return [round(signal.at - START_AT) for signal in self.signals[before:]]

    def scan(self) -> list[int]:
        """Advance the time until the next scan of the paths."""
        self.now += SCAN_S
        return self.read()

    def emit(self, signals: Sequence[Signal]) -> None:
        self.signals += signals

    def detach(self, stream: str, at: float) -> None:
        assert at == self.now
        self.gone.append(stream)

    def stop(self) -> dict[str, Any]:
        """Take the checkpoint, as JSON carries it, and end as a killed process does."""
        position = msgspec.json.decode(msgspec.json.encode(self.source.checkpoint()))
        self.close()
        return position  # type: ignore[no-any-return]

    def close(self) -> None:
        for tail in self.source._tails.values():
            tail.follower.close()

    def restart(self, position: dict[str, Any]) -> None:
        self.source = self._source(position)

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def rotate(self) -> None:
        """Shift the rotated set by rename."""
        for number in range(40, 0, -1):
            old = self.folder / f"app.log.{number}"
            if old.exists():
                old.rename(self.folder / f"app.log.{number + 1}")
        if self.path.exists():
            self.path.rename(self.folder / "app.log.1")

    def copytruncate(self) -> None:
        if not self.path.exists():
            return
        content = self.path.read_bytes()
        self.rotate()
        (self.folder / "app.log.1").rename(self.path)  # the same inode stays
        (self.folder / "app.log.1").write_bytes(content)
        os.truncate(self.path, 0)

    @property
    def errors(self) -> dict[str, int]:
        return self.source.health.errors


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


def test_lines_become_signals_of_the_files_stream(bench: Bench) -> None:
    bench.append(lines(1, 2))
    assert bench.read() == [1, 2]
    assert {signal.member.origin for signal in bench.signals} == {str(bench.path)}
    assert bench.source.health.up
    assert bench.source.health.signals == 2
    assert bench.source.health.read_bytes == len(lines(1, 2))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
def test_a_log_in_utf_16_is_counted_as_undecodable(
    bench: Bench, caplog: pytest.LogCaptureFixture, encoding: str
) -> None:
    """The last is a piece of such a log, without its mark."""
    bench.append(("\ufeff" if encoding == "utf-16-be" else "").encode(encoding))
    bench.append(lines(1).decode().encode(encoding))

    assert bench.read() == []
    assert bench.errors == {"undecodable": 1}
    (record,) = caplog.records
    assert vars(record)["error"] == "found UTF-16, wanted UTF-8"


def test_clients_that_are_too_many_are_forgotten_and_counted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreter, "_CLIENT_LIMIT", 2)
    for number in range(5):
        bench.append(line(number).replace(b"clientId=", b"clientId=%d-" % number))

    bench.read()

    assert bench.errors == {"member_evicted": 2}  # the fifth's next line would be the third


def test_log_whose_clients_cannot_be_told_apart_is_warned_of_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Replicas that write one file as one client: their member ids come back by turns."""
    text = "Successfully synced group in generation Generation{generationId=7, memberId='m1-%d', "
    for number in range(8):
        own = (text % (number % 2)).encode() + b"protocol='range'}"
        bench.append(line(number).partition(b"Request")[0] + own + b"\n")

    bench.read()

    (record,) = [each for each in caplog.records if each.message == "log_clients_mixed"]
    assert vars(record)["clients"] == "client m1"
    assert vars(record)["path"] == str(bench.path)


def test_what_is_appended_is_read(bench: Bench) -> None:
    bench.append(lines(1))
    bench.read()
    bench.append(lines(2))
    assert bench.read() == [2]


def test_a_file_may_appear_later(bench: Bench) -> None:
    assert bench.read() == []
    bench.append(lines(1))
    assert bench.scan() == [1]


def test_a_partial_line_waits_for_its_end(bench: Bench) -> None:
    data = lines(1)
    bench.append(data[:50])
    assert bench.read() == []
    bench.append(data[50:])
    assert bench.read() == [1]


def test_a_partial_line_survives_a_restart(bench: Bench) -> None:
    data = lines(1, 2)
    bench.append(data[:-50])
    assert bench.read() == [1]
    bench.restart(bench.stop())
    bench.append(data[-50:])
    assert bench.read() == [2]


def test_rotation_by_rename_finishes_the_old_file_first(bench: Bench) -> None:
    bench.append(lines(1))
    bench.read()
    bench.append(lines(2))
    bench.rotate()
    bench.append(lines(3))
    assert bench.read() == [2, 3]


def test_a_writer_may_go_on_in_the_renamed_file_for_a_while(bench: Bench) -> None:
    bench.append(lines(1))
    bench.read()
    with bench.path.open("ab") as writer:
        bench.rotate()
        bench.path.touch()  # logrotate's `create`, before the signal to the writer
        assert bench.read() == []
        writer.write(lines(2))
    assert bench.read() == [2]
    bench.append(lines(3))
    assert bench.read() == [3]


def test_a_writer_may_go_on_in_the_renamed_file_that_was_found_late(bench: Bench) -> None:
    bench.append(lines(1))
    bench.read()
    position = bench.stop()
    with bench.path.open("ab") as writer:
        bench.append(lines(2))
        bench.rotate()
        bench.path.touch()
        bench.restart(position)
        assert bench.read() == [2]
        writer.write(lines(3))
    assert bench.read() == [3]
    bench.append(lines(4))
    assert bench.read() == [4]


def test_half_a_line_at_a_rotation_does_not_eat_the_next(bench: Bench) -> None:
    bench.append(lines(1) + b"half")
    bench.read()
    bench.rotate()
    bench.append(lines(2))
    assert bench.read() == [2]


def test_two_rotations_between_polls_lose_nothing(bench: Bench) -> None:
    for number in range(1, 5):
        bench.append(lines(number))
        if number == 1:
            bench.read()
        bench.rotate()
    bench.append(lines(5))
    assert bench.read() == [2, 3, 4, 5]


def test_copytruncate_loses_nothing_that_was_copied(bench: Bench) -> None:
    bench.append(lines(1))
    bench.read()
    bench.append(lines(2))
    bench.copytruncate()
    bench.append(lines(3))
    assert bench.read() == [2, 3]
    assert bench.errors == {"truncated": 1}


def test_two_copytruncates_with_an_empty_file_between_lose_nothing(bench: Bench) -> None:
    bench.append(lines(1))
    bench.read()
    bench.copytruncate()
    bench.read()
    bench.append(lines(2))
    bench.copytruncate()
    bench.append(lines(3))
    assert bench.read() == [2, 3]


def test_a_truncated_file_that_has_grown_past_the_offset_is_noticed(bench: Bench) -> None:
    bench.append(lines(1))
    bench.read()
    os.truncate(bench.path, 0)
    bench.append(lines(2, 3))
    assert bench.read() == [2, 3]
    assert bench.errors == {"truncated": 1}


def test_a_truncated_file_of_the_same_size_is_noticed(bench: Bench) -> None:
    bench.append(lines(1))
    bench.read()
    os.truncate(bench.path, 0)
    bench.append(lines(2))
    assert bench.read() == [2]


def test_truncated_while_down(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.append(lines(1, 2, 3))
    bench.read()
    position = bench.stop()
    bench.path.write_bytes(lines(4))
    bench.restart(position)
    assert bench.read() == [4]
    assert bench.errors == {"lost": 1}
    assert caplog.text.count("log_lost") == 1


def test_rotated_while_down(bench: Bench) -> None:
    bench.append(lines(1))
    bench.read()
    position = bench.stop()
    for number in (2, 3):
        bench.append(lines(number))
        bench.rotate()
    bench.append(lines(4))
    bench.restart(position)
    assert bench.read() == [2, 3, 4]
    assert bench.errors == {}


def test_copytruncated_while_down(bench: Bench) -> None:
    bench.append(lines(1))
    bench.read()
    position = bench.stop()
    bench.append(lines(2))
    bench.copytruncate()
    bench.append(lines(3, 4))
    bench.restart(position)
    assert bench.read() == [2, 3, 4]


def test_rotated_and_packed_while_down(bench: Bench) -> None:
    bench.append(lines(1))
    bench.read()
    position = bench.stop()
    bench.append(lines(2))
    bench.rotate()
    plain = bench.folder / "app.log.1"
    (bench.folder / "app.log.1.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    bench.append(lines(3))
    bench.restart(position)
    assert bench.read() == [2, 3]


@pytest.mark.parametrize("name", ["app-1.log", "app.1.log", "app-11-25-2026-1.log", "old.log"])
@pytest.mark.parametrize("is_down", [False, True])
def test_a_rotation_to_any_name_is_read_once(tmp_path: Path, name: str, *, is_down: bool) -> None:
    """The glob finds the renamed file too: its inode shows that it is read already."""
    bench = Bench(tmp_path, "*.log")
    bench.append(lines(1, 2))
    read = bench.read()
    position = bench.stop() if is_down else {}
    bench.append(lines(3))
    bench.path.rename(tmp_path / name)
    bench.append(lines(4))
    if is_down:
        bench.restart(position)

    for _ in range(3):
        read += bench.scan()
    bench.restart(bench.stop())
    read += bench.scan()

    assert read == [1, 2, 3, 4]
    assert bench.errors == {}
    bench.close()


def test_rotated_and_packed_twice_while_down(bench: Bench) -> None:
    """The search looks at the first KiB of a packed file; the reading still begins before it."""
    bench.append(lines(1))
    bench.read()
    position = bench.stop()
    newest, older = (bench.folder / f"app.log.{number}.gz" for number in (1, 2))
    older.write_bytes(gzip.compress(bench.path.read_bytes() + lines(2)))
    newest.write_bytes(gzip.compress(lines(3, 4, 5)))
    bench.path.unlink()
    bench.append(lines(6))
    bench.restart(position)
    assert bench.read() == [2, 3, 4, 5, 6]


def test_a_file_whose_time_an_archive_did_not_keep_is_read_by_its_stamps(tmp_path: Path) -> None:
    bench = Bench(tmp_path, read_from=ReadFrom.BEGINNING)
    bench.path.write_bytes(lines(1))
    os.utime(bench.path, (0, 0))

    assert bench.read() == [1]
    bench.close()


def test_what_stands_before_the_damage_is_read(bench: Bench) -> None:
    bench.append(lines(1))
    bench.read()
    position = bench.stop()
    bench.append(lines(2, 3))
    packed = gzip.compress(bench.path.read_bytes())
    bench.rotate()
    (bench.folder / "app.log.1").unlink()
    (bench.folder / "app.log.1.gz").write_bytes(packed[:-8])
    bench.append(lines(4))
    bench.restart(position)

    assert bench.read() == [2, 3, 4]
    assert bench.errors == {"unreadable": 1}


def test_a_name_that_is_no_text_is_written_as_one(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.log")).write_bytes(lines(1))
    (tmp_path / os.fsdecode(b"\xfe.log")).write_bytes(lines(2))
    bench = Bench(tmp_path, "*.log", read_from=ReadFrom.BEGINNING)

    assert sorted(bench.read()) == [1, 2]
    streams = {signal.member.origin for signal in bench.signals}
    assert streams == {f"{tmp_path}/\\xff.log", f"{tmp_path}/\\xfe.log"}

    again = Bench(tmp_path, "*.log", read_from=ReadFrom.BEGINNING)
    again.source = again._source(bench.stop())
    (tmp_path / os.fsdecode(b"\xff.log")).write_bytes(lines(1, 3))
    assert again.read() == [3]
    again.close()


def test_a_damaged_rotated_file_is_counted_and_passed_over(bench: Bench) -> None:
    bench.append(lines(1))
    bench.read()
    position = bench.stop()
    bench.append(os.urandom(4096).hex().encode() + b"\n" + lines(2))
    packed = gzip.compress(bench.path.read_bytes())
    bench.rotate()
    (bench.folder / "app.log.1").unlink()
    (bench.folder / "app.log.1.gz").write_bytes(packed[: len(packed) // 2])
    bench.append(lines(3))
    bench.restart(position)
    assert bench.read() == [3]
    assert bench.errors == {"unreadable": 1}


def test_a_rotated_set_in_one_glob_is_one_stream(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "app.log*")
    bench.append(lines(1))
    bench.read()
    for number in (2, 3):
        bench.rotate()
        bench.append(lines(number))
        assert bench.scan() == [number]
    assert {signal.member.origin for signal in bench.signals} == {str(bench.path)}
    bench.close()


@pytest.mark.parametrize("name", ["app.log.{}", "app-{}.log"])
def test_files_named_by_date_are_one_stream(tmp_path: Path, name: str) -> None:
    bench = Bench(tmp_path, name.format("*"))
    (tmp_path / name.format("2026-11-20")).write_bytes(lines(1))
    assert bench.read() == [1]
    (tmp_path / name.format("2026-11-21")).write_bytes(lines(2))
    assert bench.scan() == [2]
    assert {signal.member.origin for signal in bench.signals} == {str(bench.path)}
    bench.close()


def test_a_deleted_file_is_detached_after_a_while(bench: Bench) -> None:
    bench.append(lines(1))
    bench.read()
    bench.append(lines(2))
    bench.path.unlink()
    assert bench.read() == [2]
    assert bench.gone == []
    bench.now += GONE_S
    bench.read()
    assert bench.gone == [str(bench.path)]
    assert bench.source.checkpoint() == {}


def test_a_file_that_was_away_for_a_moment_is_not_detached(bench: Bench) -> None:
    bench.append(lines(1))
    bench.read()
    bench.rotate()
    bench.read()
    bench.now += GONE_S / 2
    bench.append(lines(2))
    assert bench.read() == [2]
    bench.now += GONE_S / 2
    bench.read()
    assert bench.gone == []


def test_a_file_deleted_while_down_is_detached(bench: Bench) -> None:
    bench.append(lines(1))
    bench.read()
    position = bench.stop()
    bench.path.unlink()
    bench.restart(position)
    bench.read()
    bench.now += GONE_S
    bench.read()
    assert bench.gone == [str(bench.path)]


def test_a_stream_that_the_configuration_dropped_is_detached(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.append(lines(1))
    bench.read()
    position = bench.stop()
    bench.config = LogConfig(paths=(str(tmp_path / "other.log"),))
    bench.restart(position)
    assert bench.read() == []
    assert bench.gone == [str(bench.path)]


def test_a_link_is_followed_and_its_target_rotates(tmp_path: Path) -> None:
    pod = tmp_path / "pods"
    pod.mkdir()
    bench = Bench(tmp_path, "containers/*.log")
    (tmp_path / "containers").mkdir()
    link = tmp_path / "containers" / "app.log"
    link.symlink_to(pod / "0.log")
    (pod / "0.log").write_bytes(lines(1))
    assert bench.read() == [1]
    position = bench.stop()
    (pod / "0.log").rename(pod / "0.log.20261121-063344")
    (pod / "0.log").write_bytes(lines(3))
    with (pod / "0.log.20261121-063344").open("ab") as old:
        old.write(lines(2))
    bench.restart(position)
    assert bench.read() == [2, 3]
    assert {signal.member.origin for signal in bench.signals} == {str(link)}
    bench.close()


def test_a_file_under_two_names_is_read_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "*.log")
    bench.append(lines(1))
    (tmp_path / "link.log").symlink_to(bench.path)
    assert bench.read() == [1]
    bench.close()


def test_a_permission_error_is_counted_once_a_try_and_retried(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = bench.folder / "app.log"
    blocked.symlink_to(bench.folder / "app.log")  # ELOOP: root, too, cannot open it
    bench.source = LogSource(LogConfig(paths=(str(blocked),)), clock=lambda: bench.now)
    bench.read()
    bench.read()
    assert bench.errors == {"unreadable": 1}
    assert not bench.source.health.up
    bench.scan()
    assert bench.errors == {"unreadable": 2}
    assert [record.message for record in caplog.records] == ["log_unreadable"]
    blocked.unlink()
    bench.append(lines(1))
    assert bench.scan() == [1]
    assert bench.source.health.up


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(bench: Bench) -> None:
    bench.append(lines(1))
    bench.path.chmod(0)
    assert bench.read() == []
    assert bench.errors == {"permission": 1}
    bench.path.chmod(0o600)
    assert bench.scan() == [1]


def test_a_fifo_is_refused(bench: Bench) -> None:
    os.mkfifo(bench.path)
    assert bench.read() == []
    assert bench.errors == {"not_a_file": 1}


def test_a_folder_in_a_glob_is_passed_over(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "*")
    (tmp_path / "folder.log").mkdir()
    bench.append(lines(1))
    assert bench.read() == [1]
    assert bench.errors == {}
    bench.close()


def test_one_file_at_fault_does_not_stop_the_others(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "*.log")
    os.mkfifo(tmp_path / "a.log")
    bench.append(lines(1))
    assert bench.read() == [1]
    assert bench.source.health.up
    bench.close()


def test_read_from_end_passes_over_what_was_there_at_the_start(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "*.log", read_from=ReadFrom.END)
    bench.append(lines(1))
    assert bench.read() == []
    bench.append(lines(2))
    (tmp_path / "later.log").write_bytes(lines(3))
    assert bench.scan() == [2, 3]
    bench.close()


@pytest.mark.parametrize(
    "junk",
    [
        b"x" * (10 << 20) + b"\n",
        b"[Consumer " * (1 << 20) + b"\n",
        bytes(range(256)) * 4096 + b"\n",
        b"caf\xe9 \xff\xfe [Consumer clientId=\xff, groupId=\xfe] \xff\n",
        b"\0" * 4096 + b"\n",
    ],
    ids=["long", "long with anchors", "binary", "invalid utf-8", "zeros"],
)
def test_junk_is_survived_and_raises_nothing(bench: Bench, junk: bytes) -> None:
    bench.append(lines(1) + junk + lines(2))
    assert bench.read() == [1, 2]


def test_a_source_is_caught_up_when_everything_is_read(bench: Bench) -> None:
    bench.append(lines(1) + b"x" * LARGE_BLOCK_BYTES + b"\n" + lines(2))
    assert bench.source.watermark(bench.now) == 0.0
    bench.source.step(bench.emit, bench.detach)
    assert bench.source.watermark(bench.now) == START_AT + 1
    bench.read()
    assert bench.source.watermark(bench.now) == bench.now
    assert bench.source.health.lag_s == 0.0


def test_a_sync_that_nothing_ends_is_over_after_max_poll_interval(bench: Bench) -> None:
    generation = b"Generation{generationId=1, memberId='m1-1', protocol='range'}"
    synced = b"Successfully synced group in generation " + generation
    raised = b"Request joining group due to: group is already rebalancing"
    bench.append(lines(1).replace(raised, synced))
    assert bench.read() == []
    before = bench.source.checkpoint()

    bench.now += HELD_MAX_S
    assert bench.read() == []
    bench.now += 1
    assert bench.read() == [1]

    assert bench.source.checkpoint() != before
    assert bench.read() == []


def test_a_position_agrees_with_what_was_emitted(bench: Bench) -> None:
    """Whatever instant a crash chooses, nothing is lost nor read twice."""
    data = b"".join(line(number) + b"x" * 300_000 + b"\n" for number in range(1, 20))
    bench.append(data)
    numbers: list[int] = []
    for _ in range(100):
        before = len(bench.signals)
        behind = bench.source.step(bench.emit, bench.detach)
        numbers += [round(signal.at - START_AT) for signal in bench.signals[before:]]
        bench.restart(bench.stop())
        if not behind and len(numbers) >= 19:
            break
    assert numbers == list(range(1, 20))


STEPS = st.lists(
    st.sampled_from(["write", "write", "half", "read", "rename", "copy", "restart"]),
    max_size=30,
)


@example(["copy", "write", "write", "rename", "read"])
@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_every_line_comes_once_and_in_order_whatever_happens_to_the_files(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    bench = Bench(folder)
    bench.append(line(1))
    written, found, half = 1, bench.read(), b""
    for step in [*steps, "write"]:
        if step in {"write", "half"}:
            written += 1
            cut = 70 if step == "half" else 1000
            bench.append(half + line(written)[:cut])
            half = line(written)[cut:]
        elif step == "read":
            found += bench.read()
        elif step == "restart":
            bench.restart(bench.stop())
        elif not half:
            bench.copytruncate() if step == "copy" else bench.rotate()
    found += bench.scan()
    bench.close()
    shutil.rmtree(folder)
    assert found == list(range(1, written + 1))


def test_a_cancelled_run_closes_its_files_and_can_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        waits: list[float] = []
        idle = asyncio.Event()

        async def pause(seconds: float) -> None:
            waits.append(seconds)
            if seconds:
                idle.set()
                await asyncio.Event().wait()

        bench = Bench(tmp_path)
        bench.source = LogSource(bench.config, timezone="UTC", clock=lambda: bench.now, pause=pause)
        bench.append(lines(1))
        for number in (2, 3):
            task = asyncio.create_task(bench.source.run(bench.emit, bench.detach))
            await asyncio.wait_for(idle.wait(), 5)
            idle.clear()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            bench.append(lines(number))
        assert [round(signal.at - START_AT) for signal in bench.signals] == [1, 2]

    asyncio.run(scenario())


def test_a_long_read_is_not_followed_by_a_long_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that grow in the pause are not read, and their members count as read up to now."""
    cpu_s = itertools.count(0, 20)
    monkeypatch.setattr(time, "thread_time", lambda: next(cpu_s))

    async def scenario() -> None:
        waits: list[float] = []

        async def pause(seconds: float) -> None:
            waits.append(seconds)
            raise asyncio.CancelledError

        bench = Bench(tmp_path)
        bench.source = LogSource(bench.config, timezone="UTC", clock=lambda: bench.now, pause=pause)
        with pytest.raises(asyncio.CancelledError):
            await bench.source.run(bench.emit, bench.detach)
        assert waits == [SCAN_S]

    asyncio.run(scenario())


def test_lines_of_a_client_after_megabytes_of_prose_are_read_in_several_steps(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two MiB of them in one step would stop the event loop for a second or two."""
    bench.path.write_bytes(b"nothing of a client\n" * 300_000)
    bench.read()
    cpu_s = itertools.count(0.0, 0.06)
    monkeypatch.setattr(time, "thread_time", lambda: next(cpu_s))
    numbers = range(1, 9_001)
    bench.append(lines(*numbers))

    steps = list[int]()
    while bench.source.step(bench.emit, bench.detach):
        steps.append(len(bench.signals) - sum(steps))

    piece = BLOCK_BYTES // len(line(1)) + 1
    assert [round(signal.at - START_AT) for signal in bench.signals] == list(numbers)
    assert max(steps) <= piece + 1


def test_no_paths_is_the_operators_error() -> None:
    with pytest.raises(ConfigError, match="paths: found none"):
        LogConfig(paths=())


def test_an_unknown_dialect_is_the_authors_error() -> None:
    with pytest.raises(DialectError, match="unknown dialect 'cobol'"):
        LogSource(LogConfig(paths=("x",), dialects=["cobol"]))


class TestMissedFiles:
    """Files that came and were rotated between two looks, beside those that were there before."""

    def pack(self, bench: Bench, number: int) -> None:
        plain = bench.folder / f"app.log.{number}"
        plain.with_name(plain.name + ".gz").write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()

    @pytest.mark.parametrize("is_down", [False, True])
    @pytest.mark.parametrize("olds", [0, 1, 2])
    def test_a_file_that_was_empty_at_each_look(
        self, bench: Bench, olds: int, *, is_down: bool
    ) -> None:
        for number in range(olds):
            bench.append(lines(90 + number))
            bench.rotate()
        bench.path.touch()
        assert bench.read() == []
        position = bench.stop() if is_down else {}
        bench.append(lines(1))
        bench.rotate()
        if olds:
            self.pack(bench, 2)  # an old one, packed now
        self.pack(bench, 1)
        bench.append(lines(2))
        if is_down:
            bench.restart(position)

        assert bench.read() == [1, 2]
        assert bench.errors == {}

    @pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
    @pytest.mark.parametrize("is_down", [False, True])
    def test_a_file_that_is_being_packed(
        self, bench: Bench, share: float, *, is_down: bool
    ) -> None:
        bench.append(lines(1))
        bench.read()
        bench.rotate()
        text = lines(2) + os.urandom(20_000).hex().encode() + b"\n" + lines(3)
        data = gzip.compress(text)
        packed, part = bench.folder / "app.log.1.gz", int(len(data) * share)
        bench.rotate()
        packed.write_bytes(data[:part])
        bench.append(lines(4))
        bench.now = time.time()
        read = bench.read()
        if is_down:
            bench.restart(bench.stop())
            read += bench.read()
        with packed.open("ab") as file:
            file.write(data[part:])
        bench.now += 10

        assert read + bench.read() == [2, 3, 4]
        assert bench.errors == {}

    @pytest.mark.parametrize("is_copied", [False, True])
    def test_new_files_are_found_without_a_search_of_the_folder(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, *, is_copied: bool
    ) -> None:
        """20,000 empty logs in one folder listed it 20,000 times."""
        bench.path.touch()
        os.utime(bench.folder, (START_AT, START_AT))
        searched: list[Path] = []
        older = rotation._older

        def search(path: Path, split: rotation.Split) -> dict[Path, int]:
            searched.append(path)
            return older(path, split)

        monkeypatch.setattr(rotation, "_older", search)
        assert bench.read() == []
        bench.append(lines(1))
        if is_copied:
            bench.copytruncate()
            bench.append(lines(2))

        assert bench.read() == ([1, 2] if is_copied else [1])
        assert bool(searched) is is_copied

    @pytest.mark.parametrize("change", ["rotation", "packing"])
    @pytest.mark.parametrize("name", ["app.log.1", "app.log.2", "app.log.3", "app.log"])
    def test_a_set_that_changes_while_it_is_opened(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, change: str
    ) -> None:
        """A busy machine stops the agent between its look at the folder and at a file."""
        bench.append(lines(1))
        bench.read()
        for number in (2, 3, 4):
            bench.rotate()
            bench.append(lines(number))
        pending = [name]

        def change_and_open(path: Path) -> OpenLog:
            if path.name in pending:
                pending.clear()
                if change == "rotation":
                    bench.rotate()
                    bench.append(lines(5))
                for rotated in bench.folder.glob("app.log.?") if change == "packing" else ():
                    rotated.with_name(f"{rotated.name}.gz").write_bytes(
                        gzip.compress(rotated.read_bytes())
                    )
                    rotated.unlink()
            return OpenLog(path)

        monkeypatch.setattr(rotation, "OpenLog", change_and_open)

        assert bench.read() == ([2, 3, 4, 5] if change == "rotation" else [2, 3, 4])
        assert pending == []
        assert bench.errors == {}

    def test_a_file_whose_packing_broke_off(self, bench: Bench) -> None:
        bench.append(lines(1))
        bench.read()
        bench.rotate()
        bench.rotate()
        (bench.folder / "app.log.1.gz").write_bytes(gzip.compress(lines(2))[:-8])
        bench.append(lines(3))
        bench.now = time.time()
        assert bench.read() == [2]
        bench.now += 10

        assert bench.read() == [3]
        assert bench.errors == {"unreadable": 1}

    def test_the_file_that_was_read_is_removed_meanwhile(self, bench: Bench) -> None:
        bench.append(lines(1))
        assert bench.read() == [1]
        position = bench.stop()
        bench.rotate()
        bench.append(lines(2))
        bench.path.rename(bench.folder / "app.log.1")  # with `rotate 1`
        self.pack(bench, 1)
        bench.append(lines(3))
        bench.restart(position)

        assert bench.read() == [2, 3]
        assert bench.errors == {"lost": 1}

    def test_a_file_that_is_cut_without_a_copy_makes_old_ones_no_news(self, bench: Bench) -> None:
        bench.append(lines(90))
        bench.rotate()
        bench.append(lines(1))
        read = bench.read()
        for number in (2, 3, 4):
            position = bench.stop()
            bench.path.write_bytes(lines(number))
            bench.restart(position)
            read += bench.read()

        assert read == [1, 2, 3, 4]

    def test_a_checkpoint_that_does_not_know_the_file_before(self, bench: Bench) -> None:
        bench.append(lines(90))
        bench.rotate()
        bench.append(lines(1))
        bench.read()
        position = bench.stop()
        del position[str(bench.path)]["before"]  # as up to 0.1
        bench.path.write_bytes(lines(2))
        bench.restart(position)

        assert bench.read() == [2]

    def test_the_highest_number_may_be_the_newest(self, bench: Bench) -> None:
        read = []
        for number in range(1, 7):
            bench.append(lines(number))
            if number != 4:
                read += bench.read()
            time.sleep(0.02)  # a file system's times are as exact as the kernel's clock
            (bench.folder / f"app.log.{number}").write_bytes(bench.path.read_bytes())
            os.truncate(bench.path, 0)
        bench.append(lines(7))

        assert read + bench.read() == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("group", ["g", "null"])
def test_consumer_without_a_group_is_known_after_a_restart(bench: Bench, group: str) -> None:
    said = f"2026-11-21 06:00:01,000 INFO [Consumer clientId=m1, groupId={group}] "
    bench.append(f"{said}Assigned to partition(s): t-0\n".encode())
    bench.read()
    bench.restart(bench.stop())
    bench.append(f"{said}Cluster ID: x\n".encode() * 40)
    bench.read()

    (counts,) = (bench.source.health.files or {}).values()
    assert (counts.has_no_group, counts.needs_member) == (True, False)


def test_two_files_of_consumers_without_a_group_are_both_known(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "*.log")
    said = b"2026-11-21 06:00:01,000 INFO [Consumer clientId=m1, groupId=null] "
    for name in ("a.log", "b.log", "c.log"):
        (tmp_path / name).write_bytes(said + b"Assigned to partition(s): t-0\n")
        bench.scan()

    files = bench.source.health.files or {}
    assert [counts.has_no_group for counts in files.values()] == [True] * 3
    bench.close()


class TestDescriptors:
    """Files beyond the descriptors: idle ones are closed, and read on when they grow."""

    @pytest.fixture(params=["descriptors", "awake"])
    def few(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
        """Leave room for ten more files above those that are open, or for ten awake parsers."""
        if request.param == "awake":
            monkeypatch.setattr(open_tails, "AWAKE_MAX", 10)
            return 10
        probe = os.open(os.devnull, os.O_RDONLY)
        os.close(probe)
        monkeypatch.setattr(open_tails, "is_reserved", lambda descriptor: descriptor >= probe + 10)
        return 10

    def bench(self, folder: Path, files: int) -> Bench:
        bench = Bench(folder, "*.log")
        for number in range(files):
            (folder / f"app{number:03}.log").write_bytes(named(number, 1))
        return bench

    def test_all_files_are_read_and_few_are_open(self, tmp_path: Path, few: int) -> None:
        bench = self.bench(tmp_path, 100)

        bench.read()

        assert {signal.member.client_id for signal in bench.signals} == {
            f"c{number}" for number in range(100)
        }
        assert len(bench.source._open) <= few + 1
        assert bench.source.health.errors.keys() <= {"descriptors"}
        bench.close()

    def test_closed_files_are_read_on_from_their_place(self, tmp_path: Path, few: int) -> None:
        bench = self.bench(tmp_path, 50)
        bench.read()

        for number in range(50):
            with (tmp_path / f"app{number:03}.log").open("ab") as file:
                file.write(named(number, 2))
        assert sorted(bench.read()) == [2] * 50
        assert bench.read() == []
        assert len(bench.source._open) <= few + 1
        bench.close()

    def test_a_closed_file_that_was_rotated_or_truncated_loses_nothing(
        self, tmp_path: Path, few: int
    ) -> None:
        del few
        bench = self.bench(tmp_path, 50)
        bench.read()
        rotated, truncated = tmp_path / "app000.log", tmp_path / "app001.log"

        with rotated.open("ab") as file:
            file.write(named(0, 2))
        rotated.rename(tmp_path / "app000.log.1")
        rotated.write_bytes(named(0, 3))
        truncated.write_bytes(named(1, 4)[:-1])
        with truncated.open("ab") as file:
            file.write(b"\n")

        assert sorted(bench.read()) == [2, 3, 4]
        assert bench.source.health.errors["truncated"] == 1
        bench.close()

    def test_closed_empty_files_are_read_from_their_first_byte(
        self, tmp_path: Path, few: int
    ) -> None:
        bench = Bench(tmp_path, "*.log")
        for number in range(50):
            (tmp_path / f"app{number:03}.log").touch()
        (tmp_path / "app001.log.1").write_bytes(named(1, 90))
        assert bench.read() == []
        assert len(bench.source._open) <= few + 1

        for number in range(50):
            (tmp_path / f"app{number:03}.log").write_bytes(named(number, 1))
        assert bench.read() == [1] * 50
        assert bench.source.health.errors.keys() <= {"descriptors"}
        bench.close()

    def test_positions_of_closed_files_survive_a_restart(self, tmp_path: Path, few: int) -> None:
        del few
        bench = self.bench(tmp_path, 50)
        bench.read()

        bench.restart(bench.stop())
        with (tmp_path / "app000.log").open("ab") as file:
            file.write(named(0, 2))

        assert bench.read() == [2]
        bench.close()

    def test_a_closed_file_without_a_change_is_not_opened_again(
        self, tmp_path: Path, few: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        del few
        bench = self.bench(tmp_path, 100)
        opened = list[Path]()

        class CountedLog(OpenLog):
            def __init__(self, path: Path) -> None:
                opened.append(path)
                super().__init__(path)

        monkeypatch.setattr(rotation, "OpenLog", CountedLog)
        bench.read()

        assert len(set(opened)) == 100
        # the first file in the reserve is closed and opened again, and no other one
        assert len(opened) <= 101
        bench.close()


class TestFirstLook:
    """A stream that is rotated before its first look: a pod writes much in its first seconds."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> Iterator[Bench]:
        bench = Bench(tmp_path, "*.log")
        assert bench.read() == []
        yield bench
        bench.close()

    @pytest.mark.parametrize(
        "older", ["app.log.1", "app.log.20261125-120000", "app-2026-11-20.log"]
    )
    def test_it_is_read_from_its_oldest_file(self, bench: Bench, older: str) -> None:
        (bench.folder / older).write_bytes(lines(1, 2))
        bench.path.write_bytes(lines(3))

        assert bench.scan() == [1, 2, 3]
        assert bench.scan() == []

    def test_files_from_before_the_last_scan_are_not_read(self, bench: Bench) -> None:
        for name, at in (("app.log.3", bench.now), ("app.log.2", START_AT)):
            (bench.folder / name).write_bytes(lines(1))
            os.utime(bench.folder / name, (at, at))
        (bench.folder / "app.log.1").write_bytes(lines(2))
        bench.path.write_bytes(lines(3))

        assert bench.scan() == [2, 3]

    def test_a_file_that_was_read_is_not_read_again(self, bench: Bench) -> None:
        bench.path.write_bytes(lines(1))
        assert bench.scan() == [1]
        bench.path.rename(bench.folder / "app.log.1")
        bench.read()
        bench.now += GONE_S
        bench.read()
        bench.path.write_bytes(lines(2))

        assert bench.scan() == [2]


def test_positions_of_unread_streams_are_kept_and_right(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "*.log")
    chance = random.Random(34)
    for number in range(8):
        (tmp_path / f"app{number}.log").write_bytes(named(number, 1))
    bench.read()
    for step in range(60):
        path = tmp_path / f"app{chance.randrange(8)}.log"
        act = chance.choice(["append", "piece", "rotate", "truncate", "scan"])
        if act == "rotate":
            path.rename(path.with_name(path.name + ".1"))
            path.write_bytes(named(9, step))
        elif act == "truncate":
            path.write_bytes(b"")
        elif act != "scan":
            data = named(chance.randrange(8), step)
            with path.open("ab") as file:
                file.write(data[: len(data) // (2 if act == "piece" else 1)])
        bench.now += SCAN_S
        bench.source.step(bench.emit, bench.detach)

        tails = bench.source._tails.items()
        assert bench.source.checkpoint() == {stream: tail.position() for stream, tail in tails}
        assert bench.source.watermark(bench.now) == min(
            tail.watermark(bench.now) for _, tail in tails
        )
    kept, again = bench.source.checkpoint(), bench.source.checkpoint()
    assert all(kept[stream] is again[stream] for stream in kept)
    bench.close()


def named(client: int, number: int) -> bytes:
    """The line of a client of its own."""
    return line(number).replace(b"clientId=m1", b"clientId=c%d" % client)


def some_logs(folder: Path, count: int) -> Bench:
    """Create logs of one client each."""
    folder.mkdir()
    for number in range(count):
        (folder / f"app{number:03}.log").write_bytes(named(number, 1))
    return Bench(folder, "*.log")


def traced(bench: Bench, act: Callable[[], object]) -> int:
    """Return the bytes that an action adds to those of a source."""
    gc.collect()
    tracemalloc.start()
    act()
    bench.signals.clear()
    gc.collect()
    sizes = [trace.size for trace in tracemalloc.take_snapshot().traces]
    tracemalloc.stop()
    bench.close()
    return sum(size for size in sizes if size < 1 << 16)  # not Python's table of shared texts


def bytes_at_rest(folder: Path, count: int) -> int:
    """Return the bytes that so many streams take that were read to their end."""
    bench = some_logs(folder, count)

    def read() -> None:
        bench.read()
        bench.source.checkpoint()

    return traced(bench, read)


def bytes_after_restart(folder: Path, count: int) -> int:
    """Return the bytes of a number of streams after a restart without new lines."""
    bench = some_logs(folder, count)
    bench.read()
    text = msgspec.json.encode(bench.source.checkpoint())
    bench.close()

    def resume() -> None:
        positions = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        bench.restart({stream: position.copy() for stream, position in positions.items()})
        assert bench.read() == []
        assert bench.source.checkpoint() == bench.source.checkpoint()

    return traced(bench, resume)


class TestBytes:
    """Memory of a stream: read lines are not kept, and an idle stream costs little."""

    def test_a_block_that_was_read_is_not_kept(self) -> None:
        source = LogSource(LogConfig(paths=("x",)), timezone="UTC", host="h")
        parser = source._parser("x")
        block = lines(1) + b"another line\n" * 100_000
        before = sys.getrefcount(block)

        parser.feed(block, START_AT + 10_000)

        assert sys.getrefcount(block) == before

    def test_a_parser_that_is_dropped_is_freed_at_once(self) -> None:
        """The process collects cycles rarely, and those of old objects once an hour."""
        source = LogSource(LogConfig(paths=("x",)), timezone="UTC", host="h")
        parser = source._parser("x")
        parser.feed(lines(1), START_AT + 10_000)
        ended = weakref.ref(parser)
        gc.disable()
        try:
            del parser
            assert ended() is None
        finally:
            gc.enable()

    def test_a_stream_at_rest_takes_some_kilobytes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(open_tails, "AWAKE_MAX", 10)
        _, few, many = (bytes_at_rest(tmp_path / str(n), n) for n in (10, 100, 500))
        assert (many - few) / 400 < _AT_REST_BYTES_MAX

    def test_a_restart_and_a_look_cost_a_stream_at_rest_no_second_text(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(open_tails, "AWAKE_MAX", 10)
        _, few, many = (bytes_after_restart(tmp_path / str(n), n) for n in (10, 100, 500))
        assert (many - few) / 400 < _RESTARTED_BYTES_MAX

    def test_half_lines_of_all_streams_share_a_bound(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(open_tails, "HALF_LINES_MAX", 5_000)
        bench = Bench(tmp_path, "*.log")
        half = b"x" * 1_000
        for number in range(40):
            (tmp_path / f"app{number:03}.log").write_bytes(named(number, 1) + half)

        assert bench.read() == [1] * 40
        assert sum(tail.half_bytes for tail in bench.source._tails.values()) <= 6_000

        for number in range(40):
            with (tmp_path / f"app{number:03}.log").open("ab") as file:
                file.write(b"\n" + named(number, 2))
        assert bench.read() == [2] * 40
        assert bench.scan() == []
        bench.close()

    def test_a_position_at_rest_is_resumed_in_the_same_process_and_from_json(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(open_tails, "AWAKE_MAX", 2)
        bench = Bench(tmp_path, "*.log")
        for number in range(20):
            (tmp_path / f"app{number:03}.log").write_bytes(named(number, 1))
        assert bench.read() == [1] * 20

        position = bench.source.checkpoint()
        bench.close()
        bench.restart(position)  # a reload
        assert bench.read() == []
        bench.restart(bench.stop())
        for number in range(20):
            with (tmp_path / f"app{number:03}.log").open("ab") as file:
                file.write(named(number, 2))
        assert bench.read() == [2] * 20
        bench.close()


def test_next_block_is_smaller_where_lines_are_dear() -> None:
    """The event loop waits for each block."""
    assert choose_block_bytes(1 << 18, 3, 0.001) == LARGE_BLOCK_BYTES
    assert choose_block_bytes(1 << 18, 3_000, 0.01) == BLOCK_BYTES
    sizes = [choose_block_bytes(1 << 18, 3_000, took_s) for took_s in (0.1, 0.4, 0.8, 60.0)]
    assert sizes == [1 << 17, 1 << 15, 1 << 14, 1 << 14]
    assert choose_block_bytes(0, 0, 1.0) == LARGE_BLOCK_BYTES
