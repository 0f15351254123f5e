from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.lab.artifacts import CENTRAL, MIRROR_VARIABLE, appear_once, default_cache, repository
from agent.lab.errors import LabError

_SETTINGS = """\
<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0">
  <mirrors>
    <mirror><id>a</id><mirrorOf>*,!central</mirrorOf><url>https://others.example/m2</url></mirror>
    <mirror><id>b</id><mirrorOf>jcenter, central</mirrorOf><url>https://near.example/m2</url></mirror>
  </mirrors>
</settings>
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(MIRROR_VARIABLE, raising=False)
    (tmp_path / ".m2").mkdir()
    return tmp_path


@pytest.mark.usefixtures("home")
def test_without_settings_artifacts_come_from_central() -> None:
    assert repository() == CENTRAL


def test_mavens_mirror_of_central_is_used(home: Path) -> None:
    (home / ".m2" / "settings.xml").write_text(_SETTINGS)

    assert repository() == "https://near.example/m2/"


def test_the_environment_beats_mavens_settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".m2" / "settings.xml").write_text(_SETTINGS)
    monkeypatch.setenv(MIRROR_VARIABLE, "https://mine.example/")

    assert repository() == "https://mine.example/"


def test_broken_settings_name_the_file(home: Path) -> None:
    (home / ".m2" / "settings.xml").write_text("<settings>")

    with pytest.raises(LabError, match=r"settings\.xml: not XML"):
        repository()


def test_the_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")

    assert default_cache() == Path("/somewhere/kafka-rebalance-agent")


def test_a_folder_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "set"

    def fill_and_fail() -> None:
        with appear_once(target) as folder:
            assert folder is not None
            (folder / "half").touch()
            raise LabError("the network went away")

    with pytest.raises(LabError):
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
