"""Write every dashboard as JSON, for Grafana and Perses in both shades, and the mixin.

`grafana` and `perses` have the colours for dark themes, `grafana-light` and `perses-light` those
for light ones. Neither program knows a colour of one's own that depends on its theme.
"""

import json
from pathlib import Path
from typing import Any

import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.agent import agent
from dashboards.group import group
from dashboards.mixin import mixin
from dashboards.overview import overview
from dashboards.perses import perses
from dashboards.streams import streams
from metrics.model.palette import light_for_dark

ROOT = Path(__file__).parent
FOLDER = ROOT / "grafana"
MIXIN = ROOT / "mixin.libsonnet"
RULES = ROOT / "prometheus" / "rules.yaml"


def grafana() -> list[dict[str, Any]]:
    """Return each dashboard as Grafana reads it."""
    built = (build().build() for build in (overview, group, streams, agent))
    return [json.loads(json.dumps(each, cls=JSONEncoder)) for each in built]


def documents() -> dict[str, str]:
    """Return each file's text, by its name below this folder."""
    texts = {}
    for each in grafana():
        name = f"{each['uid']}.json"
        for folder, document in (("grafana", each), ("perses", perses(each))):
            text = json.dumps(document, indent=2, sort_keys=True) + "\n"
            texts[f"{folder}/{name}"] = text
            texts[f"{folder}-light/{name}"] = light_for_dark(text)
    return texts


def mixin_text() -> str:
    """Return the mixin's text."""
    names = [f"{each['uid']}.json" for each in grafana()]
    return mixin(names, yaml.safe_load(RULES.read_text()))


def main() -> None:
    """Write them."""
    for name, text in documents().items():
        file = ROOT / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    MIXIN.write_text(mixin_text())


if __name__ == "__main__":
    main()
