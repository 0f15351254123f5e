from pathlib import Path

import pytest

from agent.sources.lines.recordings import recordings, rotation


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
