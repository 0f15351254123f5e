"""Write every dashboard as JSON to `dashboards/grafana`, and the mixin beside the folder."""

import json
from pathlib import Path

import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.agent import agent
from dashboards.group import group
from dashboards.mixin import mixin
from dashboards.overview import overview
from dashboards.streams import streams

FOLDER = Path(__file__).parent / "grafana"
MIXIN = FOLDER.parent / "mixin.libsonnet"
RULES = FOLDER.parent / "prometheus" / "rules.yaml"


def documents() -> dict[str, str]:
    """Return each dashboard's text, by its file's name."""
    made = (build().build() for build in (overview, group, streams, agent))
    return {
        f"{each.uid}.json": json.dumps(each, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"
        for each in made
    }


def mixin_text() -> str:
    """Return the mixin's text."""
    return mixin(list(documents()), yaml.safe_load(RULES.read_text()))


def main() -> None:
    """Write them."""
    for name, text in documents().items():
        (FOLDER / name).write_text(text)
    MIXIN.write_text(mixin_text())


if __name__ == "__main__":
    main()
