"""The id of a spool, whatever stands in its place."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.outputs.spool.identity import spool_id


def _cut(path: Path) -> None:
    path.write_bytes(b"")


def _fill(path: Path) -> None:
    path.write_bytes(b"\0" * 32)


def _write_other(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")


def _grow(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def test_an_id_stays(tmp_path: Path) -> None:
    assert spool_id(tmp_path) == spool_id(tmp_path)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("damage", [_cut, _fill, _write_other, _grow, _link, _pipe])
def test_a_damaged_id_is_replaced(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    before = spool_id(tmp_path)
    damage(tmp_path / ".id")

    after = spool_id(tmp_path)

    assert len(after) == len(before) == 32
    assert after != before
    assert spool_id(tmp_path) == after
    assert [path.name for path in tmp_path.iterdir()] == [".id"]


@pytest.mark.timeout(30)
def test_a_pipe_beside_it_holds_nothing_up(tmp_path: Path) -> None:
    for name in (".id.part", "..id.part"):
        os.mkfifo(tmp_path / name)

    assert spool_id(tmp_path) == spool_id(tmp_path)
