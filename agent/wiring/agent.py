"""The composition root: builds every object, starts every task, ends them in order."""

import asyncio
import contextlib
import logging
import os
import platform
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from agent import VERSION
from agent.errors import RebalanceAgentError
from agent.files import lock_folder
from agent.hub.recent_records import RecentRecords, read_spool
from agent.outputs.spool.spool import JsonlSpool, SpoolMark
from agent.runtime.checkpoint import Checkpoint, forget_origins, is_of, keep_copy
from agent.runtime.checkpoint import load as load_checkpoint
from agent.runtime.checkpoint import save as save_checkpoint
from agent.runtime.collector import Collector
from agent.runtime.memory_limit import MemoryLimit
from agent.runtime.pipeline import Pipeline, Positions
from agent.runtime.source_stats import SourceStatsCollector
from agent.runtime.supervisor import supervise
from agent.sources.base import GroupInspector, Source, SupportsBacklog, SupportsReload
from agent.sources.http_events import registration as http_events
from agent.web import annotations_api, events_api
from agent.web.reload_auth import ReloadPolicy
from agent.web.server import ServerDependencies, listen, make_app
from agent.web.unsent_pages import UnsentPages
from agent.wiring.agent_config import AgentConfig, Role
from agent.wiring.hub import HubWiring
from agent.wiring.outputs import OutputsWiring
from agent.wiring.reload import log_restart_needed, make_tracker
from agent.wiring.sources import ConfiguredOrigins, make_sources
from agent.wiring.web import WebWiring
from metrics.exporters.exposition import AgentStats
from metrics.model.sample import Sample
from metrics.model.snapshot import IncidentTotals, Snapshot
from metrics.tracking.tracker import TrackerState

if TYPE_CHECKING:
    from agent.hub.incident_recorder import IncidentRecorder
    from agent.hub.rebalance_recorder import RebalanceRecorder
    from agent.hub.recorder_io import RecorderIO
    from agent.sources.http_events.source import HttpSource

log = logging.getLogger(__name__)

TICK_S = 1.0
"""Longest time between a new sample and its commit."""
_READY_LAG_S = 1.0

MakeSources = Callable[[AgentConfig, Positions], list[Source]]


class Agent:
    """One running agent."""

    def __init__(
        self,
        config: AgentConfig,
        reload_config: Callable[[], AgentConfig],
        make_sources: MakeSources = make_sources,
        clock: Callable[[], float] = time.time,
        on_listening: Callable[[AgentConfig], None] = lambda _: None,
    ) -> None:
        """Open the spool and the checkpoint; ``on_listening`` is called once the port is open.

        Raises:
            RebalanceAgentError: the configuration is wrong, or a folder cannot be used.

        """
        self._config, self._reload_config, self._clock = config, reload_config, clock
        self._make_sources, self._on_listening = make_sources, on_listening
        self._reloads = Counter({"success": 0, "failure": 0})
        self._web = WebWiring(config.web, self._reloads)
        self._state_lock = lock_folder(
            config.state_dir,
            "state_dir",
            "another process uses it; give each agent a state_dir of its own",
        )
        checkpoint_path = config.state_dir / "checkpoint.json"
        found = load_checkpoint(checkpoint_path, config.limits.memory) or Checkpoint()
        self._hub = HubWiring(config, clock)
        sources = make_sources(config, found.sources)
        found = _drop_damaged(found, sources, checkpoint_path)
        spool = JsonlSpool(config.samples.spool, agent=config.host, now=clock(), mark=found.spool)
        save = partial(save_checkpoint, checkpoint_path)
        recorded = read_spool(config.samples.spool.dir)
        self._recent = RecentRecords(
            recorded,
            watermark_of=self._hub.watermark,
            now=clock(),
            spans_of=self._hub.clock_spans,
        )
        self._pipeline = Pipeline(spool=spool, save=save, recent=self._recent, clock=clock)
        self._pipeline.restore(found.held, found.clocks)
        self._attach(found.tracker, sources)
        self._forget_departed(found.sources)
        self._outputs = OutputsWiring(config, lambda: spool.mark.seq, self.snapshot)
        is_sidecar = config.role is Role.SIDECAR
        self._watch = None if is_sidecar else self._group_watch(recorded)
        self._incidents = None if is_sidecar else self._incident_watch(recorded)
        self._source_stats, self._memory = SourceStatsCollector(), MemoryLimit()
        self._unsent = UnsentPages(config.limits.memory)
        self._source_tasks: list[asyncio.Task[None]] = []
        self._ready_sources: set[str] = set()
        self._reloading = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    # A sidecar records neither rebalances nor incidents, so it imports neither recorder.

    def _group_watch(self, recorded: Sequence[Sample]) -> "RebalanceRecorder":
        from agent.hub.rebalance_recorder import RebalanceRecorder  # noqa: PLC0415

        return RebalanceRecorder(self._recorder_io(recorded), self._outputs.enqueue)

    def _incident_watch(self, recorded: Sequence[Sample]) -> "IncidentRecorder":
        from agent.hub.incident_recorder import IncidentRecorder  # noqa: PLC0415

        return IncidentRecorder(self._recorder_io(recorded))

    def _recorder_io(self, recorded: Sequence[Sample]) -> "RecorderIO":
        from agent.hub.recorder_io import RecorderIO  # noqa: PLC0415

        return RecorderIO(
            history=self._recent,
            spooled=recorded,
            limit=self._config.limits.groups,
            take=self._pipeline.record,
            agents=self._hub,
            clock=self._clock,
        )

    async def run(self) -> None:
        """Run until `stop`; then drain: sources end, samples are durable, the spool is published.

        Raises:
            SourceError: an address cannot be bound.

        """
        self._loop = asyncio.get_running_loop()
        try:
            with (
                contextlib.closing(Collector()) as self._collector,
                _signals(self.stop, self._reload_on_signal),
            ):
                await self._run()
        finally:
            self.close()
        log.info("stopped")

    async def _run(self) -> None:
        config = self._config
        sockets = listen(config.web.listen)
        self._on_listening(config)
        dependencies = ServerDependencies(
            snapshot=self.snapshot,
            sources_not_ready=self.sources_not_ready,
            reload=self.reload,
            recent=self._recent,
            routes=[
                *self._hub.routes(self._pipeline),
                *events_api.routes(self._http_source),
                *annotations_api.routes(
                    self._pipeline.record,
                    lambda: self._config.cluster.name,
                    ReloadPolicy(config.web.token_file).refusal,
                ),
            ],
            unsent=self._unsent,
            members=config.shows_members,
        )
        web = make_app(config.web, config.limits.series, dependencies)
        own_tokens = (
            self._hub.has_own_token,
            partial(events_api.has_own_token, self._http_source),
            ReloadPolicy(config.web.token_file).has_own_token,
        )
        served = self._web.serve(web, sockets, self._hub.max_connections, own_tokens)
        tasks = [
            asyncio.create_task(served, name="web"),
            asyncio.create_task(self._tick(), name="tick"),
            asyncio.create_task(self._stopping.wait(), name="stop"),
        ]
        tasks += [*self._hub.start(self._pipeline.record), *self._outputs.start()]
        for name, watch in (("groups", self._watch), ("incidents", self._incidents)):
            if watch is not None:
                watching = supervise(f"{name}_failed", {}, watch.run)
                tasks.append(asyncio.create_task(watching, name=name))
        self._start_sources()
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self.stop()
        async with self._reloading:  # wait for a reload under way
            await _cancel(self._source_tasks)
        await _cancel(tasks)
        for task in done:
            task.result()  # a bug in one of these tasks ends the agent, after the drain

    def _http_source(self) -> "HttpSource | None":
        return http_events.find_source(self._config.sources, self._sources)

    def close(self) -> None:
        """Make everything durable and release the spool."""
        self._pipeline.close()
        os.close(self._state_lock)

    def stop(self) -> None:
        """Begin to drain."""
        self._stopping.set()

    def stop_from_thread(self) -> None:
        """Begin to drain, at the request of another thread."""
        if self._loop is None:
            self.stop()
        else:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self.stop)

    async def reload(self) -> None:
        """Read the configuration again and apply it; a wrong one changes nothing.

        Raises:
            RebalanceAgentError: the configuration is wrong; the old one stays.

        """
        async with self._reloading:
            if self._stopping.is_set():
                return
            try:
                config = self._reload_config()
                self._make_sources(config, {})
                self._web.reload()
                lasting = self._sources_kept_on_reload(config)
                for section in config.sources:
                    if section.name in lasting:
                        lasting[section.name].reload(section)
            except RebalanceAgentError as error:
                self._reloads["failure"] += 1
                log.error("reload_failed", extra={"error": str(error)})  # noqa: TRY400
                raise
            await _cancel([task for task in self._source_tasks if task.get_name() not in lasting])
            positions = self._pipeline.positions()
            log_restart_needed(self._config, config)
            self._config = config
            state = self._pipeline.tracker.state()
            sources = self._make_sources(config, positions)
            self._attach(state, [lasting.get(source.name, source) for source in sources])
            self._forget_departed(positions)
            self._start_sources()
            self._reloads["success"] += 1
            log.info("reloaded")

    def sources_not_ready(self) -> list[str]:
        """Return the names of sources that have not yet read up to now; all, if signals wait."""
        now = self._clock()
        for source in () if self._pipeline.is_waiting else self._sources:
            is_known = source.name in self._ready_sources
            if not is_known and source.health.up and _has_caught_up(source, now):
                self._ready_sources.add(source.name)
        return [s.name for s in self._sources if s.name not in self._ready_sources]

    def snapshot(self) -> tuple[Snapshot, AgentStats]:
        """Return the present state, for exporters."""
        inspectors = [source for source in self._sources if isinstance(source, GroupInspector)]
        snapshot = replace(
            self._pipeline.tracker.snapshot(self._clock()),
            inspected=tuple(row for inspector in inspectors for row in inspector.group_states()),
            rebalances={} if self._watch is None else self._watch.totals(),
            incidents=IncidentTotals() if self._incidents is None else self._incidents.totals(),
        )
        snapshot = self._hub.add_members(snapshot)
        stats = AgentStats(
            version=VERSION,
            python_version=platform.python_version(),
            sources=self._source_stats.stats(self._sources, snapshot.members_by_origin),
            outputs=(self._pipeline.spool_stats, *self._outputs.stats()),
            tracker=snapshot.counts,
            reloads=dict(self._reloads),
            external_url=self._config.web.external_url,
        )
        return snapshot, stats

    def _attach(self, state: TrackerState, sources: Sequence[Source]) -> None:
        config, self._sources = self._config, sources
        self._hub.attach(sources)
        tracker = make_tracker(config, state)
        self._pipeline.attach(tracker, sources, config.is_watched, config.samples.interval_s)

    def _forget_departed(self, positions: Positions) -> None:
        """Forget members and groups of sources that are no longer configured.

        Their positions are kept, as a later configuration may name their files again.
        """
        now, origins = self._clock(), ConfiguredOrigins(self._config, positions, self._sources)
        self._pipeline.keep_unread(origins.unread)
        self._pipeline.remove_origins(origins.is_departed, now)
        self._pipeline.tracker.await_origins(origins.is_awaited, now)

    def _sources_kept_on_reload(self, config: AgentConfig) -> dict[str, SupportsReload]:
        """Return the running sources that survive a new configuration, by name."""
        if config.cluster.name != self._config.cluster.name:
            return {}
        names = {section.name for section in config.sources}
        return {
            source.name: source
            for source in self._sources
            if isinstance(source, SupportsReload) and source.name in names
        }

    def _start_sources(self) -> None:
        going = [task for task in self._source_tasks if not task.done()]
        names = {task.get_name() for task in going}
        self._source_tasks = going + [
            asyncio.create_task(self._supervise_source(source), name=source.name)
            for source in self._sources
            if source.name not in names
        ]

    async def _supervise_source(self, source: Source) -> None:
        async def read() -> None:
            emit = self._source_stats.observe(source, self._pipeline.emit)
            await source.run(emit, self._pipeline.detach)

        def note_end() -> None:
            source.health.up = False
            source.health.errors["ended"] = source.health.errors.get("ended", 0) + 1

        await supervise("source_failed", {"source": source.name}, read, note_end)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._pipeline.tick()
            memory, pipeline = self._config.limits.memory, self._pipeline
            self._memory.enforce(memory, self._shrink_buffers, pipeline.restore_limits)
            if not self.sources_not_ready():
                self._memory.end_start(memory)
            self._collector.tick()

    def _shrink_buffers(self) -> None:
        self._unsent.shrink()
        self._pipeline.shrink_buffers()

    def _reload_on_signal(self) -> None:
        async def reload() -> None:
            with contextlib.suppress(RebalanceAgentError):  # logged and counted
                await self.reload()

        self._reload_task = asyncio.create_task(reload(), name="reload")


def _has_caught_up(source: Source, now: float) -> bool:
    """Return whether a source has read up to now; what it holds back for later lines is read."""
    if isinstance(source, SupportsBacklog):
        return not source.is_behind
    return source.watermark(now) >= now - _READY_LAG_S


def _drop_damaged(found: Checkpoint, sources: Sequence[Source], path: Path) -> Checkpoint:
    """Return the checkpoint without the members of sources with an unusable position.

    These sources read everything again: the spool must recognise all its ids, not only the newest.
    """
    damaged = {origin for source in sources for origin in source.health.damaged}
    if not damaged:
        return found
    keep_copy(path, f"position of {', '.join(sorted(damaged))}")
    return msgspec.structs.replace(
        found,
        tracker=forget_origins(found.tracker, damaged),
        spool=SpoolMark(seq=found.spool.seq),
        held=[event for event in found.held if not is_of(event, damaged)],
    )


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def _signals(stop: Callable[[], None], reload: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reload}
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
