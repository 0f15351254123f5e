from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.lab.artifacts import appear_once, default_cache
from agent.processes.errors import ProcessError


def test_the_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")

    assert default_cache() == Path("/somewhere/kafka-rebalance-agent")


def test_a_folder_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "set"

    def fill_and_fail() -> None:
        with appear_once(target) as folder:
            assert folder is not None
            (folder / "half").touch()
            raise ProcessError("the network went away")

    with pytest.raises(ProcessError):
        fill_and_fail()

    assert [path.name for path in tmp_path.iterdir()] == [".set.lock"]


def test_only_one_of_many_fills_a_folder(tmp_path: Path) -> None:
    target = tmp_path / "set"

    def fill(number: int) -> bool:
        with appear_once(target) as folder:
            if folder is not None:
                (folder / str(number)).touch()
            return folder is not None

    with ThreadPoolExecutor(max_workers=8) as pool:
        filled = list(pool.map(fill, range(8)))

    assert filled.count(True) == 1
    assert [path.name for path in target.iterdir()] == [str(filled.index(True))]
