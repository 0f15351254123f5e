"""The lock file has every package of the wheel and its extras, in one version, with hashes."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ("wire", "kafka", "otel", "spark")
"""What `make lock` takes."""
LOCKED = (ROOT / "requirements.lock").read_text()
ENTRIES = re.findall(
    r"^([\w.-]+)==([\w.!+]+)(?: ; [^\\\n]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})*)$",
    LOCKED,
    re.MULTILINE,
)
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


def test_every_line_is_read_and_has_hashes() -> None:
    lines = [line for line in LOCKED.splitlines() if re.match(r"\w", line)]
    assert len(lines) == len(ENTRIES)
    assert [name for name, _, hashes in ENTRIES if not hashes] == []


def test_it_names_no_index() -> None:
    assert "://" not in LOCKED
