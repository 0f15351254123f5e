from pathlib import Path

import pytest

from agent.lab.drivers import class_archive, java_on
from agent.lab.jvm import find_java


def test_classes_come_from_an_archive_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\necho "    java.specification.version = 17" >&2\n')
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    jars = [tmp_path / "a.jar", tmp_path / "b.jar"]
    without = java_on(jars, tmp_path)
    archive = class_archive(find_java(), ":".join(map(str, jars)), tmp_path)
    archive.parent.mkdir()
    archive.touch()

    archived = java_on(jars, tmp_path)

    assert f"-XX:SharedArchiveFile={archive}" in archived
    assert [part for part in archived if "-Xlog" not in str(part)] == [
        *without[:-2],
        f"-XX:SharedArchiveFile={archive}",
        *without[-2:],
    ]
