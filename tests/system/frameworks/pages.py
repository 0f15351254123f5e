"""The lines of a page of docs/frameworks, as they stand there, applied to a run."""

import re
from dataclasses import replace
from pathlib import Path

import yaml

from tests.system.frameworks.program import Program

_PAGES = Path(__file__).parents[3] / "docs" / "frameworks"
_LOGS = "/var/log/app"
"""Where the pages' applications log, each in a container of its own."""


def lines(page: str, language: str) -> str:
    """Return the page's first block of a language."""
    text = (_PAGES / f"{page}.md").read_text()
    found = re.search(rf"^```{language}[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found, (page, language)
    return found[1]


def as_documented(program: Program, page: str, variable: str, folder: Path) -> Program:
    """Return the program with the page's properties, in a file that a variable names."""
    settings = folder / "documented.properties"
    settings.write_text(
        lines(page, "properties").replace(f"{_LOGS}/", f"{folder}/app/${{MEMBER}}-")
    )
    return replace(
        program, writes_files=True, is_prefixed=False, environment={variable: settings.as_uri()}
    )


def with_logback(program: Program, page: str, folder: Path) -> Program:
    """Return the program with the page's configuration of Logback, in a file of each member."""
    settings = folder / "logback.xml"
    text = lines(page, "xml").replace(f"{_LOGS}/", f"{folder}/app/${{MEMBER}}-")
    settings.write_text(f"<configuration>\n{text}</configuration>\n")
    option = f"-Dlogback.configurationFile={settings}"
    return replace(
        program,
        writes_files=True,
        is_prefixed=False,
        environment=dict(program.environment) | {"JAVA_TOOL_OPTIONS": option},
    )


def sources(page: str, folder: Path) -> str:
    """Return the page's sources, as an observer's configuration has them."""
    configured = yaml.safe_load(
        lines(page, 'yaml title="agent.yaml"').replace(_LOGS, f"{folder}/app")
    )["sources"]
    return "\n  - ".join(
        yaml.safe_dump(each, default_flow_style=True, width=10_000).strip() for each in configured
    )
