"""The page on deployment has each extra that a user may install."""

import re
import tomllib

from tests.docs.test_paths import ROOT

_OF_DEVELOPERS = {"dev", "fuzz", "supply"}


def test_each_extra_of_users_has_its_row() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    _, table = (ROOT / "docs" / "deployment.md").read_text().split("\n| extra | for |\n|---|---|\n")

    rows = re.findall(r"^\| `(\w+)` \|", table.partition("\n\n")[0], re.MULTILINE)
    assert set(rows) == set(extras) - _OF_DEVELOPERS
    assert len(rows) == len(set(rows))
