"""Names in code type (log events, metrics, fields) exist, so that no page outlives a rename."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.test_paths import PAGES, ROOT

_NAME = re.compile(r"`([a-z][a-z0-9]*(?:_[a-z0-9]+)+)`")
_FOLDERS = (
    "agent",
    "aggregation",
    "metrics",
    "dashboards",
    "deploy",
    "tests",
    "benchmarks",
    "tools",
)
_CODE = {".py", ".yaml", ".yml", ".json", ".html", ".libsonnet", ".sh", ".log", ".txt"}
_OF_OTHERS = {
    "delta_lake",  # Trino's connector
    "kafka_consumergroup_members",  # kafka_exporter's
    "no_new_privs",  # Linux's
}


@cache
def code() -> str:
    return "\n".join(
        f"{path.name}\n{path.read_text(encoding='utf-8', errors='replace')}"
        for folder in _FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in _CODE and path != Path(__file__)
    )


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if "decisions" not in page.parts],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_every_name_in_code_type_exists(page: Path) -> None:
    named = set(_NAME.findall(page.read_text(encoding="utf-8"))) - _OF_OTHERS

    assert sorted(name for name in named if name not in code()) == []
