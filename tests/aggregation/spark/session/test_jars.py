"""Jars come from a Maven repository once, and only as they were pinned."""

import hashlib
import re
from pathlib import Path

import pytest

from aggregation.spark.errors import SparkSetupError
from aggregation.spark.session import jars
from aggregation.spark.session.jars import Jar, JarStore, Need, load_pins
from tests.agent.trickling import answering

BODY = b"a jar"
JAR = Jar("org.example:thing_2.13:1.0", hashlib.sha256(BODY).hexdigest())


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JarStore:
    monkeypatch.setattr(jars, "load_pins", lambda: {Need.DELTA: (JAR,)})
    repository = tmp_path / "repository"
    (repository / JAR.path).parent.mkdir(parents=True)
    (repository / JAR.path).write_bytes(BODY)
    return JarStore(folder=tmp_path / "jars", repository=f"{repository.as_uri()}/")


def offline(store: JarStore) -> JarStore:
    return JarStore(folder=store.folder, repository=store.repository, offline=True)


def test_jar_is_fetched_once_and_then_needs_no_network(store: JarStore) -> None:
    said = list[str]()
    first = store.fetch([Need.DELTA], said.append)
    again = offline(store).fetch([Need.DELTA], said.append)
    assert first == again == [store.folder / "thing_2.13-1.0.jar"]
    assert first[0].read_bytes() == BODY
    assert said == ["fetching thing_2.13-1.0.jar"]


def test_other_content_than_the_pinned_is_refused(store: JarStore, tmp_path: Path) -> None:
    (tmp_path / "repository" / JAR.path).write_bytes(b"another")
    with pytest.raises(SparkSetupError, match=f"has the SHA-256 [0-9a-f]+, wanted {JAR.sha256}"):
        store.fetch([Need.DELTA], lambda _: None)
    assert list(store.folder.iterdir()) == []


@pytest.mark.parametrize("found", [None, b"another"])
def test_offline_says_what_is_missing(store: JarStore, found: bytes | None) -> None:
    if found is not None:
        store.folder.mkdir()
        (store.folder / JAR.file).write_bytes(found)
    words = "another one than the pinned" if found else "not there"
    with pytest.raises(SparkSetupError, match=f"{words}, and --offline forbids to fetch it"):
        offline(store).fetch([Need.DELTA], lambda _: None)


def test_repository_without_the_jar_is_told(store: JarStore, tmp_path: Path) -> None:
    (tmp_path / "repository" / JAR.path).unlink()
    with pytest.raises(SparkSetupError, match=re.escape("name a mirror in MAVEN_MIRROR_URL")):
        store.fetch([Need.DELTA], lambda _: None)


def test_a_repository_that_speaks_no_http_is_named(store: JarStore) -> None:
    with answering(b"SSH-2.0-OpenSSH_9.2\r\n") as address:
        other = JarStore(folder=store.folder, repository=f"http://{address}/")
        with pytest.raises(SparkSetupError, match=r"cannot be fetched from .* \(SSH-2"):
            other.fetch([Need.DELTA], lambda _: None)


def test_each_need_is_pinned_by_coordinates_and_digests() -> None:
    assert set(load_pins()) == set(Need)
    for jar in (jar for pins in load_pins().values() for jar in pins):
        assert len(jar.coordinate.split(":")) == 3
        assert re.fullmatch(r"[0-9a-f]{64}", jar.sha256)
