"""The flat packages are ours alone: no other distribution brings a top-level name that we use."""

import subprocess
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest

from agent import VERSION
from kafka_rebalance_agent import PACKAGES

ROOT = Path(__file__).parent.parent
_FOLDERS = {
    *(".ci", ".github", "agent", "aggregation", "benchmarks", "dashboards", "deploy", "docs"),
    *("kafka_rebalance_agent", "metrics", "tests", "tools"),
}
"""All folders of the project; what a scene leaves in the working folder is not one of them."""


@pytest.mark.parametrize("package", ["kafka_rebalance_agent", *PACKAGES])
def test_no_other_distribution_owns_our_name(package: str) -> None:
    # an editable install is not listed: what counts is that nobody else is
    assert set(packages_distributions().get(package, [])) <= {"kafka-rebalance-agent"}


def test_the_agent_knows_its_version() -> None:
    assert version("kafka-rebalance-agent") == VERSION


def test_every_test_folder_is_a_package() -> None:
    """Else `tests/metrics` would shadow `metrics`."""
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}

    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone: nothing lists its files")
def test_no_leftovers_are_committed() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\0")

    assert {path.split("/")[0] for path in listed if "/" in path} <= _FOLDERS
