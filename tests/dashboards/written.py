"""The dashboards as they are committed."""

import json
from typing import Any

from dashboards.__main__ import FOLDER

DASHBOARDS: dict[str, dict[str, Any]] = {
    path.name: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))
}
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
