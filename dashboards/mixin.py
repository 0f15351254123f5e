"""The jsonnet mixin: dashboards, rules and alerts; runbooks' address and theme are settings.

The file imports Grafana's JSON beside it. A mixin's conventional fields hold the parts.
"""

import json
from typing import Any

RUNBOOKS = "https://kafka-rebalance-agent.github.io/kafka-rebalance-agent/runbooks"

_TEMPLATE = """\
// Written by `make dashboards`. A setting is set so:
// (import 'mixin.libsonnet') {{ _config+:: {{ runbookUrl: 'https://wiki.example.org' }} }}
{{
  _config+:: {{
    // The folder of the alerts' runbooks: a page for each alert.
    runbookUrl: '{runbooks}',
    // Colours for Grafana's theme: 'dark' or 'light'.
    theme: 'dark',
  }},
  grafanaDashboards+:: {{
    local light = self_config.theme == 'light',
{dashboards}
  }},
  prometheusRules+:: {rules},
  prometheusAlerts+:: {{
    local url = self_config.runbookUrl,
    groups: [
      group {{
        rules: [
          rule {{ annotations+: {{ runbook_url: '%s/%s/' % [url, rule.alert] }} }}
          for rule in group.rules
        ],
      }}
      for group in {alerts}
    ],
  }},
  local self_config = self._config,
}}
"""


def mixin(dashboards: list[str], rules: dict[str, Any]) -> str:
    """Return the mixin of dashboards' file names and of Prometheus' rules."""
    names = sorted(dashboards)
    imports = [
        f"    '{name}': if light then import 'grafana-light/{name}' else import 'grafana/{name}',"
        for name in names
    ]
    groups = rules["groups"]
    recording = [
        group | {"rules": [rule for rule in group["rules"] if "record" in rule]}
        for group in groups
        if any("record" in rule for rule in group["rules"])
    ]
    alerting = [
        group | {"rules": [rule for rule in group["rules"] if "alert" in rule]}
        for group in groups
        if any("alert" in rule for rule in group["rules"])
    ]
    return _TEMPLATE.format(
        runbooks=RUNBOOKS,
        dashboards="\n".join(imports),
        rules=_indent({"groups": recording}),
        alerts=_indent(alerting),
    )


def _indent(value: object) -> str:
    """Return JSON, which is jsonnet, as a field's value."""
    return json.dumps(value, indent=2).replace("\n", "\n  ")
