import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import ConfigError, OutputError
from agent.outputs.spool.spool import JsonlSpool, SpoolConfig, SpoolMark
from metrics.model.sample import Sample, SampleKind, Scope, format_time

NOW = 1795242824.209
START = SpoolMark()


def a_sample(number: int, reason: str | None = None) -> Sample:
    return Sample(
        id=f"{number:032x}",
        kind=SampleKind.TRANSITION,
        ts=format_time(NOW + number),
        cluster="c",
        app="a",
        group="g",
        scope=Scope.CONSUMER,
        client_id="m1",
        from_=0,
        to=1,
        reason=reason,
        source="logs",
    )


@pytest.fixture
def config(tmp_path: Path) -> SpoolConfig:
    return SpoolConfig(dir=tmp_path / "spool")


def a_spool(config: SpoolConfig, *, now: float = NOW, mark: SpoolMark = START) -> JsonlSpool:
    return JsonlSpool(config, agent="host-1", now=now, mark=mark)


@pytest.fixture
def spool(config: SpoolConfig) -> Iterator[JsonlSpool]:
    spool = a_spool(config)
    yield spool
    spool.close()


def files(config: SpoolConfig) -> list[Path]:
    return sorted(config.dir.glob("*.jsonl"))


def rows(config: SpoolConfig) -> list[Sample]:
    decode = msgspec.json.Decoder(Sample).decode
    return [decode(line) for path in files(config) for line in path.read_bytes().splitlines()]


def ids(config: SpoolConfig) -> list[int]:
    return [int(row.id, 16) for row in rows(config)]


def test_agent_and_sequence_are_set_at_the_write(config: SpoolConfig) -> None:
    spool = a_spool(config)
    spool.write([a_sample(1), a_sample(2)])
    spool.close()
    assert [(row.agent, row.seq) for row in rows(config)] == [("host-1", 1), ("host-1", 2)]


def test_nothing_is_visible_before_its_age(config: SpoolConfig, spool: JsonlSpool) -> None:
    spool.write([a_sample(1)])
    spool.commit()
    spool.tick(NOW + 59)
    assert files(config) == []


def test_a_file_appears_when_its_age_has_come(config: SpoolConfig, spool: JsonlSpool) -> None:
    spool.write([a_sample(1)])
    spool.commit()
    spool.tick(NOW + 60)
    assert [path.name for path in files(config)] == [
        "20261121T063344209Z-host-1-000000000001.jsonl"
    ]


def test_a_clock_that_steps_back_does_not_hide_a_file(
    config: SpoolConfig, spool: JsonlSpool
) -> None:
    spool.write([a_sample(1)])
    spool.commit()
    spool.tick(NOW - 3600)
    assert ids(config) == [1]


def test_an_idle_spool_makes_no_files(config: SpoolConfig, spool: JsonlSpool) -> None:
    spool.tick(NOW + 1000)
    spool.commit()
    assert files(config) == []


def test_names_sort_by_time_though_the_clock_steps_back(
    config: SpoolConfig, spool: JsonlSpool
) -> None:
    for number, now in enumerate([NOW, NOW + 100, NOW - 5000, NOW + 300], 1):
        spool.tick(now)
        spool.write([a_sample(number)])
        spool.commit()
        spool.tick(now + 60)
    assert ids(config) == [1, 2, 3, 4]


@pytest.mark.parametrize("agent", ["../x", "", "h\u00fc st", "h" * 300])
def test_any_agent_has_a_file_of_its_own(config: SpoolConfig, agent: str) -> None:
    spool = JsonlSpool(config, agent=agent, now=NOW, mark=START)
    spool.write([a_sample(1)])
    spool.commit()
    spool.close()
    assert ids(config) == [1]


def test_a_file_rolls_by_size(tmp_path: Path) -> None:
    config = SpoolConfig(dir=tmp_path, file_bytes=4096, max_bytes=1 << 20)
    spool = a_spool(config)
    for number in range(100):
        spool.write([a_sample(number)])
        spool.commit()
    spool.close()
    assert ids(config) == list(range(100))
    assert all(path.stat().st_size <= 4096 for path in files(config))


def test_when_full_the_oldest_go_and_are_counted(tmp_path: Path) -> None:
    config = SpoolConfig(dir=tmp_path, file_bytes=4096, max_bytes=20_000)
    spool = a_spool(config)
    for number in range(200):
        spool.write([a_sample(number)])
        spool.commit()
        held = sum(path.stat().st_size for path in tmp_path.iterdir())
        assert held <= 20_000
    spool.close()
    kept = ids(config)
    assert kept == list(range(200 - len(kept), 200))
    assert spool.stats.dropped == 200 - len(kept)
    assert spool.stats.written == 200
    assert spool.stats.files == len(files(config))
    assert spool.stats.bytes == sum(path.stat().st_size for path in files(config))


def test_files_that_ingest_took_away_are_not_dropped(tmp_path: Path) -> None:
    config = SpoolConfig(dir=tmp_path, file_bytes=4096, max_bytes=20_000)
    spool = a_spool(config)
    for number in range(200):
        spool.write([a_sample(number)])
        spool.commit()
        for path in files(config):
            path.unlink()
    spool.close()
    assert spool.stats.dropped == 0


def test_a_stranger_in_the_folder_stays(tmp_path: Path) -> None:
    config = SpoolConfig(dir=tmp_path, file_bytes=4096, max_bytes=8192)
    stranger = tmp_path / "notes.jsonl"
    stranger.write_text("{}\n")
    spool = a_spool(config)
    spool.write(a_sample(number) for number in range(100))
    spool.close()
    assert stranger.read_text() == "{}\n"


def test_a_second_process_is_refused(config: SpoolConfig, spool: JsonlSpool) -> None:
    spool.write([a_sample(1)])
    with pytest.raises(OutputError, match="another process writes there"):
        a_spool(config)


def test_a_closed_spool_is_free(config: SpoolConfig) -> None:
    a_spool(config).close()
    a_spool(config).close()


def test_a_folder_that_is_a_file_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    path.touch()
    with pytest.raises(OutputError, match="is a file, wanted a folder"):
        a_spool(SpoolConfig(dir=path))


@pytest.mark.parametrize("bounds", [{"file_bytes": 0}, {"max_bytes": 100}, {"roll_s": 0}])
def test_bounds_that_contradict_are_refused(tmp_path: Path, bounds: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"samples\.spool"):
        SpoolConfig(dir=tmp_path, **bounds)


WRITER = """
import sys
from pathlib import Path
from agent.outputs.spool.spool import JsonlSpool, SpoolConfig
from tests.agent.outputs.spool.test_spool import NOW, a_sample

spool = JsonlSpool(SpoolConfig(dir=Path(sys.argv[1])), agent="host-1", now=NOW)
number = 0
while True:
    number += 1
    spool.write([a_sample(number, "x" * 200)])
    if number % 7 == 0:
        spool.commit()
        print(number, flush=True)
"""


def test_kill_9_loses_nothing_that_was_committed(config: SpoolConfig) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(config.dir)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(50)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout if line.endswith("\n")]
    assert files(config) == []
    a_spool(config).close()
    found = ids(config)
    assert found == list(range(1, len(found) + 1))
    assert len(found) >= acknowledged[-1]


@pytest.mark.parametrize(
    "torn",
    [
        b'{"seq":3,"id":"',
        b"\0" * 50,
        b"\0" * 50 + b"\n",
        b'{"seq":3,"id":"\xff"}\n',
        b'{"seq":3,"x":' + b"[" * 100_000 + b"\n",
        b"",
    ],
    ids=["cut", "zeros", "line of zeros", "not utf-8", "deep", "whole"],
)
def test_a_leftover_is_cut_to_its_last_whole_line(config: SpoolConfig, torn: bytes) -> None:
    spool = a_spool(config)
    spool.write([a_sample(1), a_sample(2)])
    spool.commit()
    (part,) = config.dir.glob(".*.part")
    with part.open("ab") as file:
        file.write(torn)
    _crash(spool)
    a_spool(config, now=NOW + 1).close()
    assert ids(config) == [1, 2]
    assert list(config.dir.glob(".*.part")) == []


def test_an_empty_leftover_goes(config: SpoolConfig) -> None:
    config.dir.mkdir()
    (config.dir / ".20261121T063344209Z-host-1-000000000001.jsonl.part").write_bytes(b"torn")
    a_spool(config).close()
    assert [path.name for path in config.dir.iterdir()] == [".lock"]


def _crash(spool: JsonlSpool) -> None:
    """Let go of the lock as the end of a process does, with all that is buffered."""
    os.close(spool._lock)


def test_a_restart_from_an_older_checkpoint_writes_nothing_twice(config: SpoolConfig) -> None:
    spool = a_spool(config)
    spool.write([a_sample(1), a_sample(2)])
    spool.commit()
    mark = spool.mark
    spool.write([a_sample(3), a_sample(4)])
    spool.commit()
    _crash(spool)
    spool = a_spool(config, mark=mark)
    spool.write([a_sample(3), a_sample(4), a_sample(5)])
    spool.close()
    assert ids(config) == [1, 2, 3, 4, 5]
    assert [row.seq for row in rows(config)] == [1, 2, 3, 4, 5]
    assert spool.stats.repeated == 2


def test_the_sequence_goes_on_though_ingest_took_all_files(config: SpoolConfig) -> None:
    spool = a_spool(config, mark=SpoolMark(seq=41, settled=41))
    spool.write([a_sample(1)])
    spool.close()
    assert [row.seq for row in rows(config)] == [42]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=12), st.data())
def test_crashes_anywhere_after_commits_never_lose_nor_double(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, bool]],
    data: st.DataObject,
) -> None:
    config = SpoolConfig(dir=tmp_path_factory.mktemp("spool"), file_bytes=1500, max_bytes=1 << 20)
    spool, number, saved = a_spool(config), 0, (START, 0)
    for count, crash in steps:
        spool.write(a_sample(number + offset) for offset in range(1, count + 1))
        number += count
        spool.commit()
        if data.draw(st.booleans(), label="checkpoint"):
            saved = (spool.mark, number)
        if crash:
            _crash(spool)
            spool = a_spool(config, mark=saved[0])
            number = saved[1]
    spool.close()
    found = ids(config)
    assert found == list(range(1, len(found) + 1))
    assert len(found) >= number


def test_a_full_disk_keeps_the_lines_for_the_next_commit(
    config: SpoolConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = a_spool(config)
    spool.write([a_sample(1)])
    spool.commit()
    spool.write([a_sample(2)])
    with monkeypatch.context() as disk:
        disk.setattr(os, "write", _half_then_full())
        with pytest.raises(OutputError, match="No space left"):
            spool.commit()
    spool.write([a_sample(3)])
    spool.close()
    assert ids(config) == [1, 2, 3]


@pytest.mark.slow
def test_while_the_disk_takes_nothing_memory_is_bounded_and_losses_are_counted(
    config: SpoolConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = a_spool(config)
    with monkeypatch.context() as disk:
        disk.setattr(os, "write", _half_then_full())
        spool.write(a_sample(number) for number in range(10_000))
    spool.close()
    assert spool.stats.dropped > 0
    assert ids(config) == list(range(10_000 - spool.stats.dropped))


def test_a_whole_batch_is_never_cut_and_no_further_one_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hub asks for room before it takes a batch, and loses no record of one that it has taken."""
    spool = a_spool(SpoolConfig(dir=tmp_path / "spool", file_bytes=2_000, max_bytes=1 << 20))
    with monkeypatch.context() as disk:
        disk.setattr(os, "write", _half_then_full())
        assert spool.has_room()
        spool.write((a_sample(number) for number in range(100)), is_whole=True)
        assert not spool.has_room()
    assert spool.has_room()
    spool.close()

    assert spool.stats.dropped == 0
    assert ids(SpoolConfig(dir=tmp_path / "spool")) == list(range(100))


def _half_then_full() -> object:
    real, calls = os.write, iter(range(1_000_000))

    def write(fd: int, data: memoryview) -> int:
        if next(calls) % 2 == 0:
            return real(fd, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    return write
