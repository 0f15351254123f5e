"""A cluster in trouble for the pages: recorded incidents, moved to end a moment ago."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from click.testing import CliRunner
from msgspec.structs import replace

from agent.cli.replay import replay
from agent.config.web import WebConfig
from agent.hub.recent_records import RecentRecords
from agent.web.server import ServerDependencies, listen, make_app, serve
from aggregation.incidents.records import decode_any
from metrics.exporters.exposition import AgentStats, SourceStats
from metrics.model.sample import Outcome, Sample, Scope, format_time, parse_time
from metrics.model.snapshot import GroupKey, InspectedGroup, MemberRow, Snapshot, StatusCounts
from metrics.model.status import RebalanceStatus

GOLDEN = Path(__file__).parents[3] / "golden" / "incidents"
NOW = 1_764_000_000.0
STUCK, WAITING, BUSY, QUIET = "clickstream", "payments", "orders", "quiet"
"""Groups: a member dropped out, one is waited for, much happened, nothing happened."""
_PLAY = (
    (STUCK, "dropped-member-still-out", 300.0),
    (WAITING, "one-ongoing-told-as-three", 5.0),
    (BUSY, "kill-told-as-rollout", 240.0),
)


@cache
def recorded(folder: str) -> tuple[Sample, ...]:
    """Return an agent's records of a folder of logs."""
    logs = sorted(str(path) for path in (GOLDEN / folder).glob("*.log"))
    options = ["--source", "logs", "--signals", "--timezone", "UTC"]
    done = CliRunner().invoke(replay, [*options, *logs])
    assert done.exit_code == 0, done.output
    return tuple(decode_any(line) for line in done.stdout_bytes.splitlines())


def records(now: float = NOW) -> list[Sample]:
    """Return the records of the whole cluster."""
    found = [each for name, folder, age in _PLAY for each in _moved(name, folder, now - age)]
    return sorted(found, key=lambda each: each.ts)


def snapshot(now: float = NOW, more: int = 0) -> Snapshot:
    """Return the cluster's state; ``more`` quiet groups are added."""
    last = {
        (each.group, each.client_id, each.host): each
        for each in records(now)
        if each.scope is Scope.CONSUMER and each.to is not None
    }
    rows = [
        _row(each.group, each.client_id or "", each.host, each.to or 0, parse_time(each.ts))
        for each in last.values()
        if each.outcome is not Outcome.LEFT
    ]
    names = [QUIET, *(f"service-{n:05}" for n in range(more))]
    rows += [_row(name, f"{name}-{n}", "node-1", 0, now - 4000) for name in names for n in (1, 2)]
    groups = {each.group for each in rows}
    return Snapshot(
        at=now,
        consumers=tuple(rows),
        groups=tuple(GroupKey("prod", "app", name, "classic") for name in sorted(groups)),
        inspected=(
            InspectedGroup(
                cluster="prod", group=WAITING, group_type="classic", state="PreparingRebalance",
                members=3, generation=None, changes=1,
            ),
        ),
    )  # fmt: skip


@dataclass
class Scene:
    """The data of a server."""

    history: RecentRecords
    look: Callable[[], Snapshot]

    @property
    def dependencies(self) -> ServerDependencies:
        """Return the arguments of `make_app`."""
        source = SourceStats(
            name="logs", type="logs", up=True, members=9, read_bytes=1 << 20, signals=170,
            unparsed=0, lag_s=0.2, errors={},
        )  # fmt: skip
        stats = AgentStats(version="0.1.0", python_version="3.11.0", sources=(source,))

        async def reload() -> None:
            pass

        return ServerDependencies(
            snapshot=lambda: (self.look(), stats),
            sources_not_ready=lambda: (),
            reload=reload,
            recent=self.history,
        )


def scene(now: float = NOW, more: int = 0) -> Scene:
    """Return the cluster in trouble at one instant."""
    shown = snapshot(now, more)
    return Scene(RecentRecords(records(now)), lambda: shown)


@contextmanager
def served(shown: Scene) -> Iterator[str]:
    """Serve the pages from a thread and yield their address."""
    sockets = listen(("127.0.0.1:0",))
    app = make_app(WebConfig(), 10**6, shown.dependencies)
    started, stopping = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        serving = asyncio.create_task(serve(app, sockets))
        started.set()
        await stopping.wait()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    started.wait()
    try:
        yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    finally:
        loops[0].call_soon_threadsafe(stopping.set)
        thread.join()


def _moved(group: str, folder: str, until: float) -> Iterator[Sample]:
    """Yield records under another group's name, the last one at ``until``."""
    found = recorded(folder)
    by = until - max(parse_time(each.ts) for each in found)

    def move(ts: str | None) -> str | None:
        return None if ts is None else format_time(parse_time(ts) + by)

    for each in found:
        if each.group:
            yield replace(
                each, ts=move(each.ts) or "", joined_ts=move(each.joined_ts), group=group,
                cluster="prod", id=f"{group}-{each.id}",
            )  # fmt: skip


def _row(group: str, client_id: str, host: str, code: int, at: float) -> MemberRow:
    status = RebalanceStatus(code)
    return MemberRow(
        cluster="prod", app="app", group=group, group_type="classic", client_id=client_id,
        host=host, status=status, peak=status, since_at=at, counts=StatusCounts({}, {}, {}),
    )  # fmt: skip
