"""The pipeline of an agent: signals to the tracker, samples to the spool, state to the checkpoint.

Theory of operation. A source emits signals and the tracker's samples go to the spool, all in one
synchronous call, but while a source reads a backlog (`agent.runtime.signal_order`). A commit first
makes the samples durable, then saves the tracker's state with every source's position. After a
crash between the two, sources read the same input again and yield samples with the same ids. While
the spool fails, the checkpoint stays unchanged.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from agent import VERSION as RELEASE
from agent.errors import OutputError
from agent.hub.recent_records import RecentRecords
from agent.outputs.spool.spool import JsonlSpool
from agent.runtime.checkpoint import Checkpoint
from agent.runtime.reporter_clocks import ReporterClock, ReporterClocks
from agent.runtime.signal_order import SignalOrder
from agent.sources.base import GroupInspector, Source, SupportsMemoryPressure, Tick
from metrics.exporters.exposition import OutputStats
from metrics.model.sample import Sample
from metrics.model.signals import Signal, SourceKind
from metrics.tracking.tracker import Tracker

log = logging.getLogger(__name__)

_MAX_UNSAVED_S = 5.0
"""Interval of saving positions that moved without a sample."""
_SAVE_SHARE = 10.0
"""Pause after a save, in units of its duration: a large state must not fill the event loop."""
_MAX_UNSAVED = 20_000
"""Unsaved records that force a save: after a crash the spool recognises 50,000 duplicates."""

Positions = dict[str, dict[str, Any]]
"""Every source's checkpoint, by its name."""


class Pipeline:
    """Turns signals into durable samples."""

    def __init__(
        self,
        *,
        spool: JsonlSpool,
        save: Callable[[Checkpoint], None],
        recent: RecentRecords,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``save`` writes the checkpoint; it raises OutputError if the disk refuses."""
        self.spool = spool
        self._save = save
        self._recent = recent
        self._clock, self._monotonic = clock, monotonic
        self._errors = self._committed = self._saved_to = 0
        self._failing = self._uncommitted = self._unsaved = False
        self._save_after = self._look_after = 0.0
        self._saved: Positions = {}
        self._cluster = ""
        """The cluster's name from inspection; members of all sources then have it as a label."""
        self._unread: Positions = {}
        """In files that no source reads any more."""
        self._waiters: list[asyncio.Future[bool]] = []
        self._sampled_at = clock()
        self._order = SignalOrder(self._apply, self._advance, monotonic)
        self._clocks = ReporterClocks()

    def restore(self, held: Sequence[Signal | Tick], clocks: Sequence[ReporterClock] = ()) -> None:
        """Continue with the signals that waited in an earlier run, and its reporters' clocks."""
        self._order.restore(held)
        self._clocks.restore(clocks)

    def attach(
        self,
        tracker: Tracker,
        sources: Sequence[Source],
        is_watched: Callable[[str], bool],
        interval_s: float,
    ) -> None:
        """Use the tracker and the sources of a configuration; called again after a reload."""
        self.tracker = tracker
        self._sources = sources
        self._is_watched = is_watched
        self._interval_s = interval_s
        self._order.attach(sources)
        members = [source for source in sources if not isinstance(source, GroupInspector)]
        self._clocks.is_active = len(members) > 1

    def emit(self, signals: Sequence[Signal]) -> None:
        """Apply signals of watched groups in read order, of several sources' backlogs by time."""
        watched = [signal for signal in signals if self._is_watched(signal.member.group)]
        is_live = not self._order.is_behind
        for signal in self._clocks.correct(watched, self._clock(), is_live=is_live):
            self._order.add(signal)

    def detach(self, stream: str, at: float, *, is_cut: bool = False) -> None:
        """Apply the end of a stream."""
        self._order.add(Tick(at, cut=(stream,)) if is_cut else Tick(at, (stream,)))

    def _apply(self, event: Signal | Tick) -> None:
        """Apply an event; a member of no known cluster is of the inspected one."""
        if isinstance(event, Tick):
            for stream in event.ended:
                self.record(self.tracker.detach(stream, event.at))
            for stream in event.cut:
                self.record(self.tracker.detach(stream, event.at, is_cut=True))
            return
        if self._cluster and not event.member.cluster:
            event = replace(event, member=replace(event.member, cluster=self._cluster))
        self.record(self.tracker.apply(event))

    def _advance(self, at: float) -> None:
        self.record(self.tracker.advance(at))

    def remove_origins(self, is_departed: Callable[[SourceKind, str], bool], at: float) -> None:
        """Forget members and groups of origins that no source reads any more."""
        self._order.forget(is_departed)
        self.record(self.tracker.remove_origins(is_departed, at))

    def tick(self) -> None:
        """Advance time: apply signals that are due, then commit if there is anything to commit."""
        now = self._clock()
        read_to = self._read_to(now)
        self._order.release(read_to)
        read_to = min(read_to, self._order.first_at)
        self._advance(read_to)
        for source in self._sources:
            if isinstance(source, GroupInspector):
                self._learn_cluster(source.cluster)
                self.record(source.findings())
        deadline = read_to // self._interval_s * self._interval_s
        if deadline > self._sampled_at:
            self._sampled_at = deadline
            self.record(self.tracker.sample(deadline, self._interval_s))
        if self.commit():
            self._try_write(lambda: self.spool.tick(now))

    def _read_to(self, now: float) -> float:
        return min((source.watermark(now) for source in self._sources), default=now)

    def _learn_cluster(self, cluster: str) -> None:
        """Give members that were seen before the first poll their cluster, once it is known."""
        if not cluster or cluster == self._cluster:
            return
        self._cluster = cluster
        self.record(self.tracker.name_cluster(cluster))

    def shrink_buffers(self) -> None:
        """Freeze the stores' sizes, as memory is short, and release half-read input."""
        self._order.release_all()
        for source in self._sources:
            if isinstance(source, SupportsMemoryPressure):
                source.shrink_buffers()
        self._recent.freeze_limits()
        self.tracker.freeze_limits()

    def restore_limits(self) -> None:
        """Allow the stores to grow up to their limits again."""
        self._recent.restore_limits()
        self.tracker.restore_limits()

    async def wait_durable(self) -> bool:
        """Wait until all records so far are durable; False: the disk refuses."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return bool(await waiter)

    def commit(self) -> bool:
        """Make samples durable, then save the checkpoint if it changed; False: not durable."""
        if self._uncommitted:
            if not self._try_write(self.spool.commit):
                self._resolve_waiters(is_safe=False)
                return False
            self._uncommitted, self._unsaved = False, True
            self._committed = self.spool.stats.written
        self._resolve_waiters(is_safe=True)
        due_at = self._save_after if self._unsaved else self._look_after
        if self._monotonic() >= due_at or self._committed - self._saved_to > _MAX_UNSAVED:
            return self._save_checkpoint()
        return True

    def close(self) -> None:
        """Commit everything and close the spool."""
        self._save_after = self._look_after = 0.0
        if self._order.is_behind:
            self._order.release(self._read_to(self._clock()))
        else:
            self._order.release_all()
        self.commit()
        self._try_write(self.spool.close)

    def keep_unread(self, positions: Positions) -> None:
        """Keep the positions in files that no source reads any more, until the next call."""
        self._unread = positions

    def positions(self) -> Positions:
        """Return each source's position: a restart resumes exactly here.

        Those of `keep_unread` come first.
        """
        return self._unread | {source.name: source.checkpoint() for source in self._sources}

    @property
    def spool_stats(self) -> OutputStats:
        """Counts of the spool since the start."""
        stats = self.spool.stats
        return OutputStats(
            name="spool",
            written=stats.written,
            buffered=stats.written - self._committed,
            dropped=stats.dropped,
            errors=self._errors,
        )

    def record(self, samples: Sequence[Sample], *, is_whole: bool = False) -> None:
        """Write samples; the next tick makes them durable."""
        if samples:
            written = self.spool.write(samples, is_whole=is_whole)
            # after a restart these come from the spool: they must be one agent's, in one order
            self._recent.add(written, self._clock())
            self._uncommitted = True

    @property
    def is_waiting(self) -> bool:
        """Whether there are signals of a backlog that are not applied yet."""
        return self._order.is_holding

    def has_room(self) -> bool:
        """Whether a batch can be recorded whole: the disk works, or the buffer has room."""
        return self.spool.has_room()

    def record_whole(self, samples: Sequence[Sample]) -> None:
        """Write a batch that must not lose a sample; the caller has asked `has_room`."""
        self.record(samples, is_whole=True)

    def _resolve_waiters(self, *, is_safe: bool) -> None:
        for waiter in self._waiters:
            if not waiter.done():  # a request that waited may have ended
                waiter.set_result(is_safe)
        self._waiters.clear()

    def _save_checkpoint(self) -> bool:
        started, positions = self._monotonic(), self.positions()
        if self._unsaved or positions != self._saved:
            checkpoint = Checkpoint(
                release=RELEASE,
                spool=self.spool.mark,
                tracker=self.tracker.state(),
                sources=positions,
                held=self._order.held,
                clocks=self._clocks.state(),
            )
            if not self._try_write(lambda: self._save(checkpoint)):
                return False
            self._save_after = started + _SAVE_SHARE * (self._monotonic() - started)
        self._unsaved, self._saved = False, positions
        self._saved_to = self._committed
        self._look_after = max(started + _MAX_UNSAVED_S, self._save_after)
        return True

    def _try_write(self, act: Callable[[], None]) -> bool:
        """Run a disk operation; log each change between success and failure once."""
        try:
            act()
        except OutputError as error:
            self._errors += 1
            if not self._failing:
                log.error("samples_not_durable", extra={"error": str(error)})  # noqa: TRY400
            self._failing = True
            return False
        if self._failing:
            log.info("samples_durable_again")
        self._failing = False
        return True
