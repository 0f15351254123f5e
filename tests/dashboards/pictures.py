"""Draw the dashboards in the colours of light themes, beside a play with a real broker.

    python -m tests.dashboards.pictures

It writes `docs/dashboards/*.svg`. All that they show was scraped from that agent in that play,
which takes minutes; a bar that stands for a minute in Grafana stands for ten seconds.
"""

import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any

import click

from agent.lab.clients import Clients
from agent.lab.lab import fetch_artifacts, open_lab
from agent.lab.scenes import play
from dashboards.frame import GROUP
from docs.dashboard_pictures.picture import picture
from docs.dashboard_pictures.place import Series, Span
from tests.dashboards.promql import asked
from tests.dashboards.scenario import Prometheus, scraped
from tests.dashboards.test_rules import FOLDER as RULES
from tests.dashboards.written import LIGHT

FOLDER = Path(__file__).parent.parent.parent / "docs" / "dashboards"
_SHOWN = "payments"
"""The group that the dashboard of one group is drawn with."""
_STEP_S, _BAR_S = 2, 10
_LOOK_S = 0.5
_DEADLINE_S = 120.0
_RANGE = {"$__rate_interval": "10s"}
_OVER = (
    'kafka_group_rebalances_total{group="gateway"}',
    f'rebalance_agent_config_reloads_total{{outcome="success"}} offset {_BAR_S}s > 0',
)
"""What is there when all that the play does was told, and has a bar."""
_NOT_IN_PLAY = ("kafka_group_incidents_total", "kafka_group_join_failures_total")
"""Metrics without a value in the play: an incident counts ten minutes after its end, and no join
fails in the group that is shown. Their panels have a text instead."""
_LABEL = re.compile(r"\{\{(\w+)\}\}")

# one source has a device that does not exist, so that a fault shows
_AGENT = """\
role: standalone
cluster: {{name: demo, bootstrap_servers: ["{bootstrap}"]}}
apps: {{shop: [payments, shipping], office: [audit, counts]}}
sources:
  - {{type: logs, paths: ["{logs}/*.log"]}}
  - {{type: groups, interval: 2s}}
  - {{type: capture, interface: nodevice0}}
"""


@contextmanager
def played(folder: Path) -> Iterator[tuple[Prometheus, Span]]:
    """Give a Prometheus that has seen the whole play."""
    logs = folder / "clients"
    with open_lab(folder / "lab", fetch_artifacts()) as lab:
        bootstrap = lab.cluster.bootstrap
        config = _AGENT.format(bootstrap=bootstrap, logs=logs)
        with (
            scraped(folder, config, RULES / "rules.yaml") as (agent, prometheus),
            Clients(bootstrap, logs, lab.cache) as clients,
        ):
            began_at = time.time()
            for act in play(lab, clients, lab.proxy.address):
                click.echo(act, err=True)
            agent.send_signal(signal.SIGHUP)
            _until(lambda: all(map(prometheus.has, _OVER)))
            yield prometheus, Span(began_at, time.time())


def _until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not fact():
        if time.monotonic() > deadline:
            sys.exit("the play is over, but Prometheus was not told of all of it")
        time.sleep(_LOOK_S)


class Asking:
    """Asks a panel's queries as Grafana would."""

    def __init__(self, prometheus: Prometheus, span: Span, folder: str, group: str) -> None:
        """``folder`` is left out of what is told; ``group`` is a pattern."""
        self._prometheus = prometheus
        self._folder = folder
        self._span = span
        self.empty: list[str] = []
        """What had no answer."""
        self._values = _RANGE | {"$__range": f"{span.seconds:.0f}s", "$group": group}

    def __call__(self, target: Mapping[str, Any], least: str) -> list[Series]:
        """Return the answer, each series by its legend."""
        step_s = _BAR_S if least else _STEP_S
        expr = asked(target["expr"], self._values | {"$__interval": f"{step_s}s"})
        end_at = self._span.end_at
        if target.get("instant"):
            found = self._prometheus.get("query", query=expr, time=end_at)["result"]
        else:
            found = self._prometheus.get(
                "query_range", query=expr, start=self._span.start_at, end=end_at, step=step_s
            )["result"]
        legend = target["legendFormat"]
        made = [self._series(each, legend, step_s) for each in found]
        shown = [series for series in made if series.points]
        if not shown and not any(name in target["expr"] for name in _NOT_IN_PLAY):
            self.empty.append(target["expr"])
        return shown

    def _series(self, answer: Mapping[str, Any], legend: str, step_s: float) -> Series:
        got = answer["metric"].items()
        labels = {name: value.replace(self._folder, "") for name, value in got}
        points = [
            (float(at), float(value)) for at, value in answer.get("values") or [answer["value"]]
        ]
        return Series(
            name=_LABEL.sub(lambda match: labels.get(match[1], ""), legend),
            labels=labels,
            points=[point for point in points if isfinite(point[1])],
            step_s=step_s,
        )


def main() -> None:
    if shutil.which("prometheus") is None:
        sys.exit("prometheus is missing (Debian: apt-get install prometheus)")
    empty: list[str] = []
    with tempfile.TemporaryDirectory() as folder, played(Path(folder)) as (prometheus, span):
        FOLDER.mkdir(exist_ok=True)
        for dashboard in LIGHT.values():
            group = _SHOWN if dashboard["uid"] == GROUP else ".*"
            asking = Asking(prometheus, span, folder, group)
            path = FOLDER / f"{dashboard['uid'].removeprefix('kafka-rebalance-')}.svg"
            path.write_text(picture(dashboard, asking, span))
            empty += asking.empty
    if empty:
        sys.exit("\n".join(["no data for", *empty]))


if __name__ == "__main__":
    main()
