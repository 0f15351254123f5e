"""Pages for people who report and contribute: valid forms, commands and links that exist."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from agent.cli import main

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / ".github"
FORMS = sorted(path for path in (FOLDER / "ISSUE_TEMPLATE").iterdir() if path.stem != "config")
SCHEMAS = {
    **dict.fromkeys(FORMS, "vendor.github-issue-forms"),
    FOLDER / "ISSUE_TEMPLATE" / "config.yml": "vendor.github-issue-config",
    FOLDER / "dependabot.yml": "vendor.dependabot",
}
PAGES = [ROOT / "SECURITY.md", ROOT / "CODE_OF_CONDUCT.md", FOLDER / "PULL_REQUEST_TEMPLATE.md"]
_COMMAND = re.compile(r"`rebalance-agent ([^`]+)`")


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_a_form_keeps_to_its_schema(path: Path) -> None:
    program = Path(sys.executable).with_name("check-jsonschema")

    done = subprocess.run(
        [program, "--builtin-schema", SCHEMAS[path], path],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", [*FORMS, *PAGES], ids=lambda path: path.name)
def test_commands_that_are_named_exist(path: Path) -> None:
    context = click.Context(main)
    for line in _COMMAND.findall(path.read_text()):
        name, *words = line.split()
        if name == "--version":
            continue
        command = main.get_command(context, name)
        assert command is not None, line
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= options, line


def test_a_report_of_a_log_asks_how_its_lines_are_read() -> None:
    for name in ("bug", "log_line"):
        text = (FOLDER / "ISSUE_TEMPLATE" / f"{name}.yml").read_text()
        assert "replay --source logs --explain-line" in text


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_and_targets_exist(path: Path) -> None:
    text = path.read_text()
    targets = re.findall(r"`make ([a-z-]+)`", text)
    makefile = (ROOT / "Makefile").read_text()

    for link in re.findall(r"\]\(([^):]+)\)", text):
        assert (path.parent / link).exists(), link
    assert [name for name in targets if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_vulnerabilities_have_one_way_in() -> None:
    security = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Security"]

    assert security in (FOLDER / "ISSUE_TEMPLATE" / "config.yml").read_text()
