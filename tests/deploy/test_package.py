"""The package as pip installs it: built from this checkout, in a new environment, and started."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

from agent import VERSION
from tests.deploy.installed import ROOT, run

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LEAST = 'sources: [{type: logs, paths: ["/var/log/app/*.log"]}]\n'

pytestmark = pytest.mark.timeout(600)


def test_their_metadata_is_what_an_index_takes(distributions: dict[str, Path]) -> None:
    twine = Path(sys.executable).with_name("twine")

    assert run(twine, "check", "--strict", *distributions.values()).count("PASSED") == 2


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def test_links_of_the_description_lead_to_files_of_its_version(metadata: Message) -> None:
    description = metadata.get_payload()
    assert isinstance(description, str)
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", description)
    source = PROJECT["urls"]["Source"]
    files = source.replace("github.com", "raw.githubusercontent.com")
    bases = {"": f"{source}/blob/v{VERSION}/", "!": f"{files}/v{VERSION}/"}

    assert [link for _, link in links if not link.startswith(("https://", "#"))] == []
    ours = [(bases[kind], link) for kind, link in links if link.startswith((source, files))]
    assert len(ours) > 1
    for base, link in ours:
        assert link.startswith(base)
        assert (ROOT / link.removeprefix(base).partition("#")[0]).exists(), link


def test_metadata_names_project_authors_license_and_each_python(metadata: Message) -> None:
    names = {line.partition(",")[0] for line in metadata.get_all("Project-URL", [])}
    minors = [each.rpartition(" :: ")[2] for each in metadata.get_all("Classifier", [])]

    assert names == {"Homepage", "Documentation", "Source", "Issues", "Changelog", "Security"}
    assert metadata["Author"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert [minor for minor in minors if minor.startswith("3.")] == list(PYTHONS)
    assert metadata["Requires-Python"] == f">={PYTHONS[0]}"


def test_they_hold_the_program_and_nothing_else(distributions: dict[str, Path]) -> None:
    with tarfile.open(distributions["sdist"]) as archive:
        sources = archive.getnames()
    with zipfile.ZipFile(distributions["wheel"]) as archive:
        installed = {name.split("/")[0] for name in archive.namelist()}
        files = archive.namelist()

    source = {name.split("/", 2)[1] for name in sources if "/" in name}
    code = {"kafka_rebalance_agent", "agent", "aggregation", "metrics"}
    texts = {"CHANGELOG.md", "LICENSE", "README.md", "PKG-INFO", ".gitignore", "pyproject.toml"}
    assert source - texts == code | {"docs"}
    top = {name for name in installed if not name.startswith("kafka_rebalance_agent-")}
    assert top == {"kafka_rebalance_agent"}
    assert [name for name in [*files, *sources] if "/lab/" in name] == []
    assert any(name.endswith("share/man/man1/rebalance-agent.1") for name in files)
    assert "kafka_rebalance_agent/agent/sources/logs/dialects/java-consumer-3.0-4.3.yaml" in files
    assert "kafka_rebalance_agent/aggregation/explain/recommendations.toml" in files
    assert any(name.endswith("/aggregation/explain/recommendations.toml") for name in sources)


def interpreter(version: str) -> Path:
    """Return a Python of that version that works; pyenv's shims on the PATH need not."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = [str(path) for path in pyenv.glob(f"{version}.*/bin/python")]
    for candidate in filter(None, (sys.executable, shutil.which(f"python{version}"), *found)):
        question = [candidate, "-c", "import sys; print(sys.version)"]
        done = subprocess.run(question, capture_output=True, text=True, check=False)
        if done.stdout.startswith(f"{version}."):
            return Path(candidate)
    pytest.skip(f"there is no Python {version} here")


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("sdist", PYTHONS[0]),
        *(pytest.param("wheel", each, marks=pytest.mark.field) for each in PYTHONS[:2]),
        *(("wheel", each) for each in PYTHONS[2:]),
    ],
)
def test_pip_installs_a_file_and_the_command_works(
    distributions: dict[str, Path], kind: str, version: str, tmp_path: Path
) -> None:
    run(interpreter(version), "-m", "venv", tmp_path / "environment")
    programs = tmp_path / "environment" / "bin"
    config = tmp_path / "agent.yaml"
    config.write_text(LEAST)

    run(programs / "pip", "install", "--quiet", "--no-compile", distributions[kind])

    agent = programs / "rebalance-agent"
    assert run(agent, "--version").startswith("rebalance-agent, version ")
    assert "/var/log/app/*.log" in run(agent, "check-config", "-c", config)
    assert "java-consumer" in run(agent, "dialects")
    manual = tmp_path / "environment" / "share" / "man" / "man1" / "rebalance-agent.1"
    assert manual.is_file()
