"""Feeds short-lived members of one source to an agent's own path, in this process; prints the cost.

The path is tracker, spool, checkpoint and page, at default limits. One JSON object on stdout; the
exit code is 1 if memory or series exceed their bounds, or if evicted members were not counted.
"""

import json
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import click

from agent.config.limits import LimitsConfig
from agent.hub.recent_records import RecentRecords
from agent.outputs.spool.spool import JsonlSpool, SpoolConfig
from agent.runtime.checkpoint import save
from agent.runtime.pipeline import Pipeline
from aggregation.live.live import live
from metrics.exporters.exposition import AgentStats, Exposition
from metrics.exporters.prometheus import PageWriter
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.churn.lives import GROUPS, SOURCES, START_AT

_DEFAULT = LimitsConfig()
_TICK_S = 1.0
_SCRAPE_S = 15.0
_TELL_IDS = 20_000
_RSS_MAX_MIB = 256.0
_OWN_SERIES = 100
"""What the page shows of the agent itself; it is not bounded by the limit, nor does it grow."""


class _Clock:
    def __init__(self) -> None:
        self.now = START_AT

    def __call__(self) -> float:
        return self.now


@click.command(help=__doc__)
@click.argument("source", type=click.Choice([*SOURCES]))
@click.argument("count", type=int)
@click.option("--members", default=_DEFAULT.members)
@click.option("--groups", default=_DEFAULT.groups)
@click.option("--series", default=_DEFAULT.series)
def main(source: str, count: int, members: int, groups: int, series: int) -> None:
    limits = LimitsConfig(members=members, groups=groups, series=series)
    with tempfile.TemporaryDirectory() as folder:
        found = _run(source, count, limits, Path(folder))
    click.echo(json.dumps(found))
    sys.exit(0 if _is_bounded(found, limits) else 1)


def _is_bounded(found: dict[str, float], limits: LimitsConfig) -> bool:
    return (
        found["rss_mib"] <= _RSS_MAX_MIB
        and found["series"] <= limits.series + _OWN_SERIES
        and found["members"] <= limits.members
        and found["groups"] <= limits.groups
        and found["groups"] + found["groups_evicted"] >= min(found["ids"], GROUPS)
    )


def _run(source: str, count: int, limits: LimitsConfig, folder: Path) -> dict[str, float]:
    config = StatusConfig(members=limits.members, groups=limits.groups)
    clock, tracker = _Clock(), Tracker(config)
    pipeline = Pipeline(
        spool=JsonlSpool(SpoolConfig(dir=folder / "spool"), agent="a", now=clock.now),
        save=partial(save, folder / "checkpoint.json"),
        recent=RecentRecords([]),
        clock=clock,
    )
    pipeline.attach(tracker, [], lambda _: True, 15.0)
    page, series, scraped_at, ticked_at = PageWriter(), 0, START_AT, START_AT
    begun_s, own = time.perf_counter(), Counter[str]()
    for number, (at, signals) in enumerate(SOURCES[source](count, pipeline.detach, own)):
        if number and number % _TELL_IDS == 0:
            click.echo(f"{source}: {number} ids, {_rss_mib_max()} MiB", err=True)
        clock.now = at
        pipeline.emit(signals)
        if at >= ticked_at + _TICK_S:
            ticked_at = at
            pipeline.tick()
        if at >= scraped_at + _SCRAPE_S:
            scraped_at = at
            series = max(series, _scrape(page, tracker, limits, at))
    series = max(series, _scrape(page, tracker, limits, clock.now))
    pipeline.close()
    counts = tracker.snapshot(clock.now).counts
    return {
        "ids": count,
        "rss_mib": _rss_mib_max(),
        "series": series,
        "members": len(tracker.state().consumers),
        "groups": len(tracker.state().groups),
        "evicted": counts.get("evicted", 0),
        "groups_evicted": counts.get("groups_evicted", 0),
        "source_evicted": own["member_evicted"],
        "ids_per_s": round(count / (time.perf_counter() - begun_s)),
    }


def _rss_mib_max() -> float:
    """Return the most memory that this process ever had, between two looks too (Linux)."""
    status = Path("/proc/self/status").read_text()
    kib = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return round(int(kib) / 1024, 1)


def _scrape(page: PageWriter, tracker: Tracker, limits: LimitsConfig, at: float) -> int:
    """Return how many series a page has."""
    snapshot = tracker.snapshot(at)
    stats = AgentStats(version="", python_version="", tracker=snapshot.counts)
    pieces, _ = page.write(Exposition(live(snapshot), stats), "text/plain", limits.series)
    text = b"".join(pieces)
    return text.count(b"\n") - text.count(b"\n#") - text.startswith(b"#")


if __name__ == "__main__":
    main()
