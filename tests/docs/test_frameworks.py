"""The pages of frameworks: each agent configuration on them is valid, and says what was tried."""

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from agent.cli import main

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in (ROOT / "docs" / "frameworks").glob("*.md") if path.stem != "index")
_BLOCK = re.compile(r'^```yaml title="(agent[\w-]*\.yaml)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)
_CONFIGURATIONS = {
    f"{page.stem}/{name}": text
    for page in PAGES
    for name, text in _BLOCK.findall(page.read_text(encoding="utf-8"))
}


@pytest.mark.parametrize("name", _CONFIGURATIONS)
def test_agent_configuration_of_a_page_is_valid(name: str, tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    secret = tmp_path / "secret"
    secret.write_text("secret\n", encoding="utf-8")
    text = re.sub(r"(_file: )\S+", rf"\g<1>{secret}", _CONFIGURATIONS[name])
    path.write_text(text, encoding="utf-8")

    done = CliRunner().invoke(main, ["check-config", "--config.file", str(path)])

    assert done.exit_code == 0, done.output
    wanted = yaml.safe_load(_CONFIGURATIONS[name])["sources"]
    found = yaml.safe_load(done.output)["sources"]
    assert [source["type"] for source in found] == [source["type"] for source in wanted]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_has_a_configuration_and_what_was_tried(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert any(name.startswith(f"{page.stem}/") for name in _CONFIGURATIONS)
    assert "**Tried" in text
    assert "**Shows**" in text or page.stem in {"kubernetes", "compose", "strimzi", "msk"}


def test_every_page_is_in_the_navigation_and_in_the_overview() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    overview = (ROOT / "docs" / "frameworks" / "index.md").read_text(encoding="utf-8")

    assert [page.stem for page in PAGES if f"frameworks/{page.name}\n" not in navigation] == []
    assert [page.stem for page in PAGES if f"({page.name})" not in overview] == []
