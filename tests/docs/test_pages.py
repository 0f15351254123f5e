"""The documentation: the reference is the code's, examples are real, and the site builds."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from agent.cli import main
from docs.architecture_picture import BOXES
from docs.reference_pages import pages
from metrics.model.status import RebalanceStatus

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
CODES = [code for code in RebalanceStatus if code]
SEARCH = Path("search", "search_index.json")
LOADED = re.compile(r'<(?:script|img)[^>]* src="([^"]*)"|<link rel="stylesheet" href="([^"]*)"')
RECORDED = ROOT / "tests" / "golden" / "dialects"


def example(code: RebalanceStatus) -> str:
    """Return the log of a code's section in the page on concepts."""
    section = (DOCS / "concepts.md").read_text().partition(f"\n### {int(code)} ")[2]
    (found,) = re.findall(r"```log\n(.*?)```", section.partition("\n##")[0], re.DOTALL)
    return str(found)


@pytest.mark.parametrize("name", sorted(pages()))
def test_the_reference_is_as_the_code_has_it(name: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")

    assert written == pages()[name], "say: make docs"


def test_every_page_of_the_reference_is_made() -> None:
    made = {path.relative_to(DOCS).as_posix() for path in (DOCS / "reference").iterdir()}
    assert made == {name for name in pages() if name.startswith("reference/")}


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_the_example_of_a_code_shows_that_code(code: RebalanceStatus, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text(example(code))

    done = CliRunner().invoke(main, ["replay", "--source", "logs", "--timezone", "UTC", str(log)])

    reached = [json.loads(line)["to"] for line in done.stdout.splitlines()]
    assert [status for status in reached if status] == [code]


def test_every_line_of_the_examples_was_written_by_a_real_client() -> None:
    recorded = {
        line for path in RECORDED.glob("*/input.log") for line in path.read_text().splitlines()
    }

    shown = {line for code in CODES for line in example(code).splitlines()}
    assert shown - recorded == set()


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    mkdocs = Path(sys.executable).with_name("mkdocs")

    done = subprocess.run(
        [mkdocs, "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    site = tmp_path / "site"
    assert (site / "deploy" / "helm" / "index.html").is_file()
    titles = {page["title"] for page in json.loads((site / SEARCH).read_text())["docs"]}
    assert {"Quick start", "KafkaGroupIncident", "Metrics"} <= titles
    for name in ("index.html", "quick-start/index.html"):
        page = (site / name).read_text()
        assert "content.code.copy" in page
        loaded = [url for pair in LOADED.findall(page) for url in pair if url]
        assert loaded
        assert [url for url in loaded if "//" in url] == []


def test_what_links_to_the_site_meets_a_page() -> None:
    url = yaml.load((ROOT / "mkdocs.yml").read_text(), yaml.BaseLoader)["site_url"]
    linked = {
        match
        for folder in ("agent", "dashboards/prometheus", "deploy/helm")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in {".html", ".yaml", ".py"}
        for match in re.findall(rf"{re.escape(url)}([\w/.-]+)/", path.read_text())
    }
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in DOCS.rglob("*.md")}
    assert len(linked) > 10
    assert {name for name in linked if Path(name) not in pages | {Path("runbooks")}} == set()


def test_every_package_of_the_picture_exists() -> None:
    packages = [name.strip() for box in BOXES if "/" in box.title for name in box.title.split(",")]

    assert len(packages) > 10
    assert [name for name in packages if not (ROOT / name / "__init__.py").is_file()] == []
