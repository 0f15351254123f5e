"""Write every dashboard as JSON to `dashboards/grafana`."""

import json
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.agent import agent
from dashboards.group import group
from dashboards.overview import overview
from dashboards.streams import streams

FOLDER = Path(__file__).parent / "grafana"


def documents() -> dict[str, str]:
    """Return each dashboard's text, by its file's name."""
    made = (build().build() for build in (overview, group, streams, agent))
    return {
        f"{each.uid}.json": json.dumps(each, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"
        for each in made
    }


def main() -> None:
    """Write them."""
    for name, text in documents().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
