import gzip
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.sources.lines.whole_files.recordings import recordings, rotation


@pytest.mark.parametrize(
    "names",  # the oldest first; the last one names the set
    [
        ["app.log.10", "app.log.2.gz", "app.log.1", "app.log"],
        ["app.log.2026-11-20", "app.log.2026-11-21", "app.log"],
        ["app.log-20261120.gz", "app.log-20261121", "app.log"],
        ["app.log.2026-11-21.2", "app.log.2026-11-21.10", "app.log"],
        ["app.log.20261121-095959", "app.log.20261121-100000", "app.log"],
        ["app-2026-11-20.log.gz", "app-2026-11-21.log", "app.log"],
        ["app.2026-11-21.2.log", "app.2026-11-21.10.log", "app.2026-11-22.0.log", "app.log"],
        ["app-2026-11-21-9.log.gz", "app-2026-11-21-10.log", "app.log"],
        ["app.2026-11-21.1.log.gz", "app.2026-11-21.2.log98765432101.tmp", "app.log"],
        ["app_20261121.out", "app.out"],
        [
            "app-2026-11-21-09-2.log.gz",
            "app-2026-11-21-10-1.log",
            "app-2026-11-21-10-2.log",
            "app.log",
        ],
        ["app.2026-11-21_09-59.log.gz", "app.2026-11-21_10-00.log", "app.log"],
        ["app.log.2026-11-21_09-59-59.gz", "app.log.2026-11-21_10-00-00.gz", "app.log"],
        ["app-2026-11-21-09-59-59-2.log", "app-2026-11-21-10-00-00-1.log", "app.log"],
        [
            "app-11-30-2026-2.log.gz",
            "app-12-01-2026-1.log.gz",
            "app-01-01-2027-1.log.gz",
            "app.log",
        ],
    ],
)
def test_a_rotated_set_is_one_stream_the_oldest_first(names: list[str], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).touch()
    by_name = sorted(str(tmp_path / name) for name in names)

    (found,) = recordings(by_name)

    assert found.stream == str(tmp_path / names[-1])
    assert [path.name for path in found.files] == names


@pytest.mark.parametrize(
    ("names", "sets"),
    [
        (["app-2.log.gz", "app-1.log.gz", "app.log"], 1),
        (["app-2.log.gz", "app-1.log", "app.log"], 1),
        (["app-1.log", "app.log"], 2),
        (["app-1.log.gz", "other.log"], 2),
    ],
)
def test_a_number_before_the_suffix_is_a_rotation_beside_the_base_if_one_is_packed(
    names: list[str], sets: int, tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).touch()

    found = recordings([str(tmp_path / name) for name in sorted(names)])

    assert len(found) == sets
    if sets == 1:
        assert found[0].stream == str(tmp_path / "app.log")
        assert [path.name for path in found[0].files] == names


@pytest.mark.parametrize("numbered", ["app.log.{}", "app.log.{}.gz", "app-{}.log.gz"])
@pytest.mark.parametrize("is_ascending", [True, False])
def test_the_first_times_of_numbered_files_show_which_number_is_the_newest(
    numbered: str, is_ascending: bool, tmp_path: Path
) -> None:
    numbers = [1, 2, 10] if is_ascending else [10, 2, 1]
    names = [numbered.format(number) for number in numbers] + ["app.log"]
    for hour, name in enumerate(names):
        text = f"\tat no.time\n2026-11-21 0{hour}:00:00,000 INFO begun\n".encode()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)

    (found,) = recordings([str(tmp_path / name) for name in sorted(names)])

    assert [path.name for path in found.files] == names


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_pipe_is_read_from_its_first_byte(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    pipe, text = tmp_path / "app.log", b"".join(b"line %d\n" % n for n in range(100_000))
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[pack(text)])

    (found,) = recordings([str(pipe)])
    writer.start()
    data = b"".join(data for data, _ in found.blocks())
    writer.join()

    assert found.is_pipe
    assert data == text


@pytest.mark.parametrize(
    "name",
    [
        "worker-1.log",
        "worker.1",
        "node-12345678.log",
        "node-20269999.log",
        "2026-11-21.log",
        "app-2026-11-21-blue.log",
        "data-2026-11-21.csv",
    ],
)
def test_a_number_that_is_no_rotation_belongs_to_the_name(name: str) -> None:
    assert rotation(Path("/var/log", name)).base == Path("/var/log", name)
