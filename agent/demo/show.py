"""The whole demo: a stage, an agent that observes it, a live view, and the result."""

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import NamedTuple, TextIO

from agent.demo.live_view import LiveView
from agent.demo.observer import observe
from agent.demo.outcome import DemoOutcome, analyze_spool, read
from agent.demo.stages import PlayTerms, Setting
from aggregation.incidents.incidents import Analysis

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
    """The result of a demo."""

    outcome: DemoOutcome
    analysis: Analysis


def perform(
    setting: Setting,
    places: DemoFolders,
    seconds: float,
    out: TextIO,
    *,
    keep_running: bool = False,
) -> Performance:
    """Play, observe, drain; return the result.

    With ``keep_running`` cluster, clients and agent run on after the play, until Ctrl-C.

    Raises:
        ProcessError: a process did not execute a command.
    """
    places.logs.mkdir(parents=True)
    begun_s = time.monotonic()

    def is_enough() -> bool:
        return time.monotonic() >= begun_s + seconds

    with (
        setting(places.output, PlayTerms(is_enough, leaves_running=keep_running)) as stage,
        observe(places.output, stage.upstreams) as observer,
    ):
        out.write(f"watch it: {observer.url}/\n\n")
        out.flush()
        heading = f"rebalance-agent demo  {observer.url}/"
        with stage.play(observer.proxies) as acts:
            with LiveView(lambda: observer.get("/metrics"), out, heading) as view:
                for act in acts:
                    view.caption(act)
                time.sleep(_SETTLE_S)
            if keep_running:
                out.write(f"\nall still runs: {observer.url}/  Ctrl-C ends it\n")
                out.flush()
                with suppress(KeyboardInterrupt):
                    Event().wait()
    return Performance(read(places.spool), analyze_spool(places.spool))
