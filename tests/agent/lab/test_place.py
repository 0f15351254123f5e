"""The lab is not in the wheel, so nothing that is may need it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
_USES = re.compile(r"^\s*(?:from|import) agent\.lab\b", re.MULTILINE)


def test_one_stage_of_the_demo_uses_it_and_nothing_else() -> None:
    modules = [
        path for name in ("agent", "aggregation", "metrics") for path in (ROOT / name).rglob("*.py")
    ]
    outside = [path for path in modules if ROOT / "agent" / "lab" not in path.parents]

    users = [
        path.relative_to(ROOT).as_posix() for path in outside if _USES.search(path.read_text())
    ]

    assert users == ["agent/demo/stages.py"]
