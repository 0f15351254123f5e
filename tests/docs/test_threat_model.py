"""The threat model's bounds: each interface has a row, and each row has tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")


def _rows(heading: str) -> list[list[str]]:
    """Return the rows of a section's table, without its head."""
    section = _PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


_ROWS = _rows("One hostile or broken peer")
_ATTACKS = _rows("Attacks that were tried")
_ATTACK_COUNT = 20
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_INTERFACES = {
    "log files",
    "wire",
    "proxy",
    "hub",
    "events",
    "statistics",
    "admin answers",
    "web",
    "spool",
    "tables",
    "configuration",
}


def test_each_interface_has_a_row_with_all_bounds() -> None:
    assert {row[0] for row in _ROWS} >= _INTERFACES
    assert {len(row) for row in _ROWS} == {5}
    assert all(cell for row in _ROWS for cell in row)


def test_each_attack_has_a_row() -> None:
    assert len({row[0] for row in _ATTACKS}) == len(_ATTACKS) >= _ATTACK_COUNT


@pytest.mark.parametrize("row", [*_ROWS, *_ATTACKS], ids=lambda row: str(row[0]))
def test_each_bound_has_tests_that_exist(row: list[str]) -> None:
    named = _TEST.findall(row[-1])

    assert len(named) == row[-1].count("`") // 2 > 0
    assert [(path, name) for path, name in named if name not in _tests(ROOT / path)] == []


def _tests(path: Path) -> set[str]:
    """Return the names of a file's tests, without those that never run."""
    found = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name for node in found if isinstance(node, ast.FunctionDef) and _runs(node)}


def _runs(function: ast.FunctionDef) -> bool:
    marks = {ast.unparse(mark) for mark in function.decorator_list}
    return function.name.startswith("test_") and not any("mark.skip(" in mark for mark in marks)
