from pathlib import Path

import pytest

from aggregation.spark.errors import SparkSetupError
from aggregation.spark.session.maven import CENTRAL, MIRROR_VARIABLE, repository

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

    with pytest.raises(SparkSetupError, match=r"settings\.xml: not XML"):
        repository()
