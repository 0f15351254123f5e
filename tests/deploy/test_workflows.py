"""Workflows of checks and of a release, by their own linters; there is no runner here."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.go_tools import tool
from tests.deploy.test_package import PYTHONS

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yaml"))
_PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text())["jobs"]
    return found


def commands(path: Path) -> dict[str, list[str]]:
    """Return the commands of each job."""
    return {
        name: [step["run"] for step in job["steps"] if "run" in step]
        for name, job in jobs(path).items()
    }


def test_actionlint_finds_nothing() -> None:
    done = subprocess.run(
        [tool("actionlint"), *WORKFLOWS], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, "")


def test_zizmor_finds_no_right_too_many() -> None:
    program = Path(sys.executable).with_name("zizmor")
    options = ("--offline", "--quiet", "--no-progress")

    done = subprocess.run(
        [program, *options, ROOT / ".github"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_an_action_is_pinned_to_the_commit_of_a_version(path: Path) -> None:
    uses = re.findall(r"uses: (.+)$", path.read_text(), re.MULTILINE)

    assert uses
    assert [each for each in uses if not _PINNED.fullmatch(each)] == []


def test_an_action_has_one_version_in_all_workflows() -> None:
    texts = [workflow.read_text() for workflow in WORKFLOWS]
    uses = {each for text in texts for each in re.findall(r"uses: (.+)$", text, re.MULTILINE)}

    assert len({each.partition("@")[0] for each in uses}) == len(uses)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_targets_that_are_made_exist(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    lines = [line for lines in commands(path).values() for line in lines if line[:5] == "make "]
    words = [word for line in lines for word in line.split()[1:]]
    targets = {word for word in words if re.fullmatch(r"[a-z-]+", word)}

    assert targets
    assert [each for each in targets if not re.search(rf"^{each}:", makefile, re.MULTILINE)] == []


def test_a_release_makes_everything_by_targets() -> None:
    found = commands(FOLDER / "release.yaml")
    del found["notes"]  # it puts together what others have made

    assert [line for lines in found.values() for line in lines if line[:5] != "make "] == []


def test_unit_tests_run_on_each_python_that_is_supported() -> None:
    matrix = jobs(FOLDER / "checks.yaml")["python"]["strategy"]["matrix"]

    assert matrix["python"] == list(PYTHONS)


def test_what_writes_is_a_release() -> None:
    rights = [job["permissions"] for job in jobs(FOLDER / "checks.yaml").values()]

    assert [right for right in rights if right != {"contents": "read"}] == []
