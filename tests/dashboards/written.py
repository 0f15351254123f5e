"""The dashboards as they are committed."""

import json
from pathlib import Path
from typing import Any

from dashboards.__main__ import FOLDER, ROOT


def _dashboards_in(folder: Path) -> dict[str, dict[str, Any]]:
    return {path.name: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


DASHBOARDS = _dashboards_in(FOLDER)
LIGHT = _dashboards_in(ROOT / "grafana-light")
PERSES = _dashboards_in(ROOT / "perses")
PERSES_LIGHT = _dashboards_in(ROOT / "perses-light")
PANELS: dict[str, dict[str, Any]] = {
    f"{dashboard['uid']}: {panel['title']}": panel
    for dashboard in DASHBOARDS.values()
    for panel in dashboard["panels"]
    if panel["type"] != "row"
}
ANNOTATIONS: list[str] = [
    each["expr"]
    for dashboard in DASHBOARDS.values()
    for each in dashboard["annotations"].get("list", [])
]
