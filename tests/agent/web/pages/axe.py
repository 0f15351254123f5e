"""axe-core, the accessibility engine, fetched once into the user's cache by npm."""

import os
import shutil
import subprocess
from functools import cache
from typing import Any

import pytest

from agent.lab.artifacts import appear_once, default_cache
from tests.devtools import Tab

VERSION = "4.14.1"
_FETCH_WITHIN_S = 300.0
_RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


@cache
def axe() -> str:
    """Return the engine's script."""
    npm = shutil.which("npm")
    if npm is None:
        if os.environ.get("CI") == "true":
            pytest.fail("npm is missing: it fetches axe-core")
        pytest.skip("npm is missing: it fetches axe-core")
    target = default_cache() / "npm" / f"axe-core-{VERSION}"
    with appear_once(target) as folder:
        if folder is not None:
            subprocess.run(
                [npm, "pack", "--silent", f"axe-core@{VERSION}", "--pack-destination", folder],
                check=True,
                timeout=_FETCH_WITHIN_S,
                stdout=subprocess.DEVNULL,
            )
            shutil.unpack_archive(folder / f"axe-core-{VERSION}.tgz", folder, filter="data")
    return (target / "package" / "axe.min.js").read_text()


def findings(tab: Tab) -> list[str]:
    """Return the serious and critical findings on the page that a tab shows."""
    rules = list(_RULES)
    tab.run(f"{axe()};0")
    found: list[dict[str, Any]] = tab.run(
        f"axe.run({{runOnly: {rules}}}).then(r => r.violations.map(v => ({{id: v.id,"
        " impact: v.impact, nodes: v.nodes.map(n => n.html + ' ' + n.failureSummary)})))"
    )
    return [
        f"{each['id']}: {node}"
        for each in found
        if each["impact"] in {"serious", "critical"}
        for node in each["nodes"]
    ]
