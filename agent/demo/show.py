"""The whole show: a stage, an agent that observes it, a live view, and what came of it."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

from agent.demo.live_view import LiveView
from agent.demo.observer import observe
from agent.demo.outcome import Outcome, read
from agent.demo.stages import Setting

_SETTLE_S = 1.0
"""The proxy tells within a tenth of a second; the view looks twice a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFolders:
    """Where everything of a show is."""

    output: Path

    @property
    def logs(self) -> Path:
        """The clients' logs."""
        return self.output / "logs"

    @property
    def spool(self) -> Path:
        """What the agent observed."""
        return self.output / "spool"

    @property
    def scratch(self) -> tuple[Path, ...]:
        """What nobody wants to see afterwards."""
        return (self.logs, *(self.output / name for name in ("lab", "state", "spark")))

    @property
    def tables(self) -> Path:
        """What Spark made of it."""
        return self.output / "tables"

    @property
    def report(self) -> Path:
        """The report's page."""
        return self.output / "report" / "report.html"


class Performance(NamedTuple):
    """What came of a show, and where its metrics were."""

    outcome: Outcome
    metrics_url: str


def perform(setting: Setting, places: DemoFolders, seconds: float, out: TextIO) -> Performance:
    """Play, observe, drain; return what was observed.

    Raises:
        ProcessError: a process did not do as told.
    """
    places.logs.mkdir(parents=True)
    begun_s = time.monotonic()

    def enough() -> bool:
        return time.monotonic() >= begun_s + seconds

    with (
        setting(places.output, enough) as stage,
        observe(places.output, stage.upstreams) as observer,
    ):
        url = f"{observer.url}/metrics"
        heading = f"rebalance-agent demo  {url}"
        with (
            stage.play(observer.proxies) as acts,
            LiveView(lambda: observer.get("/metrics"), out, heading) as view,
        ):
            for act in acts:
                view.caption(act)
            time.sleep(_SETTLE_S)
    return Performance(read(places.spool), url)
