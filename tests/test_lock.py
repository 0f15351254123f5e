"""The lock file has every package of the wheel and its extras, in one version, with hashes.

Each image has its part of it, and what builds wheels within images a lock of its own.
"""

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
_PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, BUILD = _PYPROJECT["project"], _PYPROJECT["build-system"]["requires"]
EXTRAS = ("fast", "wire", "kafka", "otel", "spark")
"""What `make lock` takes."""
_ENTRY = re.compile(
    r"^([\w.-]+)==([\w.!+]+)(?: ; [^\\\n]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})*)$",
    re.MULTILINE,
)
DOCKER = ROOT / "deploy" / "docker"
LOCKED = (ROOT / "requirements.lock").read_text()
ENTRIES = _ENTRY.findall(LOCKED)
LOCKS = [ROOT / "requirements.lock", *sorted(DOCKER.glob("*.lock"))]
IMAGES = {"agent": ("fast", "wire", "kafka", "otel"), "spark": ("spark",)}
WANTED = [*PROJECT["dependencies"]]
WANTED += [each for extra in EXTRAS for each in PROJECT["optional-dependencies"][extra]]


@pytest.mark.parametrize("wanted", WANTED)
def test_what_the_project_wants_is_locked_as_it_wants_it(wanted: str) -> None:
    requirement = Requirement(wanted)
    versions = [
        version for name, version, _ in ENTRIES if name == canonicalize_name(requirement.name)
    ]
    assert versions, "say: make lock"
    assert all(requirement.specifier.contains(version) for version in versions), "say: make lock"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_line_is_read_and_has_hashes(lock: Path) -> None:
    text = lock.read_text()
    entries = _ENTRY.findall(text)
    lines = [line for line in text.splitlines() if re.match(r"\w", line)]
    assert len(lines) == len(entries) > 0
    assert [name for name, _, hashes in entries if not hashes] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_it_names_no_index(lock: Path) -> None:
    assert "://" not in lock.read_text()


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_has_its_extras_as_they_are_locked(image: str) -> None:
    entries = _ENTRY.findall((DOCKER / f"{image}.lock").read_text())
    extras = (PROJECT["optional-dependencies"][extra] for extra in IMAGES[image])
    wanted = {Requirement(each).name for each in chain(PROJECT["dependencies"], *extras)}

    assert set(entries) <= set(ENTRIES), "say: make lock"
    assert {canonicalize_name(name) for name in wanted} <= {name for name, _, _ in entries}


def test_images_build_with_what_the_project_builds_with() -> None:
    entries = {
        name: version for name, version, _ in _ENTRY.findall((DOCKER / "build.lock").read_text())
    }

    for each in map(Requirement, BUILD):
        assert each.specifier.contains(entries[canonicalize_name(each.name)])
