"""The whole demo: a stage, an agent that observes it, a live view, and the result."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

from agent.demo.live_view import LiveView
from agent.demo.observer import observe
from agent.demo.outcome import DemoOutcome, read
from agent.demo.stages import Setting

_SETTLE_S = 1.0
"""The proxy reports within a tenth of a second; the view reads twice a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFolders:
    """The folders and files of a demo."""

    output: Path

    @property
    def logs(self) -> Path:
        """The clients' logs."""
        return self.output / "logs"

    @property
    def spool(self) -> Path:
        """The agent's samples."""
        return self.output / "spool"

    @property
    def scratch(self) -> tuple[Path, ...]:
        """Folders that are deleted at the end."""
        return (self.logs, *(self.output / name for name in ("lab", "state", "spark")))

    @property
    def tables(self) -> Path:
        """Spark's tables."""
        return self.output / "tables"

    @property
    def report(self) -> Path:
        """The report's page."""
        return self.output / "report" / "report.html"


class Performance(NamedTuple):
    """The result of a demo, and the URL of its metrics."""

    outcome: DemoOutcome
    metrics_url: str


def perform(setting: Setting, places: DemoFolders, seconds: float, out: TextIO) -> Performance:
    """Play, observe, drain; return the result.

    Raises:
        ProcessError: a process did not execute a command.
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
