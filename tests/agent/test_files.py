import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.errors import OutputError
from agent.files import check_folder, lock_folder, replace_file


@pytest.fixture(autouse=True)
def _generous() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_state_is_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "state"
    os.close(lock_folder(folder, "state", "is taken"))
    replace_file(folder / "b" / "checkpoint.json", [b"{}"])

    modes = {str(path.relative_to(tmp_path)): mode(path) for path in tmp_path.rglob("*")}
    assert modes == {
        "a": 0o700,
        "a/state": 0o700,
        "a/state/.lock": 0o600,
        "a/state/b": 0o700,
        "a/state/b/checkpoint.json": 0o600,
    }


def test_a_file_that_others_could_read_is_replaced_by_one_that_they_cannot(tmp_path: Path) -> None:
    for name in ("checkpoint.json", ".checkpoint.json.part"):
        (tmp_path / name).write_text("old")
        (tmp_path / name).chmod(0o644)

    replace_file(tmp_path / "checkpoint.json", [b"new"])

    assert mode(tmp_path / "checkpoint.json") == 0o600
    assert (tmp_path / "checkpoint.json").read_text() == "new"


@pytest.mark.parametrize("make", [os.mkfifo, lambda part: part.symlink_to("other")])
def test_what_stands_in_the_place_of_the_new_file_is_removed(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """The link's file was overwritten; for a pipe's reader the agent waited for ever."""
    (tmp_path / "other").write_text("of somebody else")
    make(tmp_path / ".checkpoint.json.part")

    replace_file(tmp_path / "checkpoint.json", [b"new"])

    assert (tmp_path / "checkpoint.json").read_text() == "new"
    assert (tmp_path / "other").read_text() == "of somebody else"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["checkpoint.json", "other"]


def test_a_link_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / ".lock").symlink_to(tmp_path / "created")

    with pytest.raises(OutputError, match="symbolic link"):
        lock_folder(tmp_path, "state", "is taken")

    assert not (tmp_path / "created").exists()


def test_a_folder_that_is_there_keeps_its_rights(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)

    os.close(lock_folder(folder, "spool", "is taken"))

    assert mode(folder) == 0o755


def test_a_folder_that_cannot_be_there_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    check_folder(tmp_path / "new" / "newer", "state_dir")
    for name, reason in (("x" * 300, "File name too long"), ("link/below", "'.*link' is a link")):
        with pytest.raises(OutputError, match=reason) as checked:
            check_folder(tmp_path / name, "state_dir")
        with pytest.raises(OutputError, match=r"^state_dir '"):
            lock_folder(tmp_path / name, "state_dir", "")
        assert len(str(checked.value)) < 500


def test_a_folder_that_this_user_may_not_enter_is_an_error(tmp_path: Path) -> None:
    """Such as an agent's state, where somebody else checks its configuration."""
    closed, before = tmp_path / "closed", os.geteuid()
    closed.mkdir(mode=0)
    os.seteuid(before or 65534)
    try:
        with pytest.raises(OutputError, match=r"^state_dir '.*Permission denied$"):
            check_folder(closed / "below", "state_dir")
    finally:
        os.seteuid(before)


@pytest.mark.parametrize("mode", [0o500, 0o300, 0o600])
def test_a_folder_that_this_user_may_not_use_is_an_error(mode: int) -> None:
    before = os.geteuid()
    with tempfile.TemporaryDirectory() as name:  # pytest's own has parents that are closed
        Path(name).chmod(0o755)
        folder = Path(name) / "state"
        folder.mkdir()
        os.chown(folder, before or 65534, -1)
        folder.chmod(mode)
        os.seteuid(before or 65534)
        try:
            with pytest.raises(OutputError, match=r"^state_dir '.*Permission denied$"):
                check_folder(folder, "state_dir")
            if not mode & 0o200:
                with pytest.raises(OutputError, match=r"^state_dir '.*Permission denied$"):
                    check_folder(folder / "below", "state_dir")
        finally:
            os.seteuid(before)
            folder.chmod(0o700)
