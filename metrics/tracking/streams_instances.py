"""Kafka Streams instances: the sum of their threads' consumers and follow-ups.

An instance has the code of a follow-up (10-13) if one of its threads has any, else the highest code
of its consumers. Its status keeps the only-upward rule: with threads at 6 and 1 it stays at 6 until
all threads are at zero (semantics.md 2).
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from metrics.model.sample import Outcome, Sample, Scope
from metrics.model.signals import InstanceKey, Member, Signal
from metrics.model.status import RebalanceStatus
from metrics.model.transition import instance_target, transition
from metrics.tracking.consumer import Consumer
from metrics.tracking.status_track import Track

NONE = RebalanceStatus.NONE

_Key = tuple[str, ...]


@dataclass(slots=True)
class Instance:
    """An instance's own track and its threads."""

    track: Track
    threads: dict[_Key, Consumer]


class StreamsInstances:
    """Every Streams instance, by key."""

    def __init__(self, tracks: Iterable[Track]) -> None:
        self._by_key: dict[_Key, Instance] = {}
        self._by_name = defaultdict[tuple[str, str], list[_Key]](list)
        for track in tracks:
            self._add(track)

    @property
    def tracks(self) -> list[Track]:
        """The instances' own tracks."""
        return [instance.track for instance in self._by_key.values()]

    def add_thread(self, thread: Consumer, signal: Signal) -> None:
        """Add a new consumer to its instance; do nothing for a plain consumer."""
        wanted = signal.member.instance_key
        if wanted is None:
            return
        found = self._find(wanted, signal)
        thread.instance = wanted if found is None else InstanceKey(*found)
        self.restore_thread(thread)

    def restore_thread(self, thread: Consumer) -> None:
        """Add a thread to its instance, a new one if there is none.

        A checkpoint may have lost the instance with the position of its source.
        """
        key = thread.instance
        if key is None:
            return
        if key not in self._by_key:
            self._add(_create_track(key, thread.track))
        self._by_key[key].threads[thread.track.key] = thread

    def remove_thread(self, thread: Consumer) -> None:
        """Remove a thread, and the instance with its last one."""
        instance = self._of(thread)
        if instance is None:
            return
        del instance.threads[thread.track.key]
        if not instance.threads:
            key = instance.track.key
            del self._by_key[key]
            self._by_name[_name(key)].remove(key)
            if not self._by_name[_name(key)]:
                del self._by_name[_name(key)]

    def track_of(self, thread: Consumer) -> Track | None:
        """Return the track of the thread's instance; None for a plain consumer."""
        instance = self._of(thread)
        return None if instance is None else instance.track

    def siblings_of(self, thread: Consumer) -> list[Consumer]:
        """Return the other threads of the thread's instance; none for a plain consumer."""
        instance = self._of(thread)
        return [] if instance is None else [t for t in instance.threads.values() if t is not thread]

    def set_reporter(self, thread: Consumer, at: float) -> None:
        """Set the instance's reporter and labels from its thread."""
        track, of_thread = self.track_of(thread), thread.track
        if track is not None:
            track.member = msgspec.structs.replace(of_thread.member, member_id=None)
            track.set_reporter(of_thread.source, of_thread.origin, at, of_thread.shift_s)
            track.generation, track.confirmed_at = of_thread.generation, of_thread.confirmed_at

    def follow(
        self, thread: Consumer, at: float, reason: str | None, outcome: Outcome | None = None
    ) -> list[Sample]:
        """Update the instance of ``thread`` after the thread has moved."""
        instance = self._of(thread)
        if instance is None:
            return []
        track = instance.track
        to = transition(track.status, _target(instance))
        if to is track.status:
            return []
        sample = track.move(to, at, reason, outcome if to is NONE else None)
        track.left_at = track.since_at if outcome is Outcome.LEFT else None
        return [sample]

    def is_idle_since(self, thread: Consumer, at: float) -> bool:
        """Return True if the thread's instance has been at zero since ``at``."""
        track = self.track_of(thread)
        if track is None:
            return False
        return track.status is NONE and (track.moved is None or track.moved.at <= at)

    def lose(self, thread: Consumer, at: float, reason: str) -> list[Sample]:
        """Drop an instance's status when nothing supports it any more."""
        instance = self._of(thread)
        if instance is None or instance.track.status is NONE or _target(instance) is not NONE:
            return []
        return [instance.track.lose(at, reason)]

    def _add(self, track: Track) -> None:
        self._by_key[track.key] = Instance(track, {})
        self._by_name[_name(track.key)].append(track.key)

    def _of(self, thread: Consumer) -> Instance | None:
        return None if thread.instance is None else self._by_key.get(thread.instance)

    def _find(self, wanted: InstanceKey, signal: Signal) -> _Key | None:
        """Return the instance of a thread: the same key, the same source's, or the only other's."""
        if tuple(wanted) in self._by_key:
            return tuple(wanted)
        if signal.member.group_instance_id is not None:
            return None
        candidates = [
            instance
            for key in self._by_name.get((wanted.group, wanted.client_id), ())
            if _is_compatible((instance := self._by_key[key]).track.member, signal.member)
        ]
        others = []
        for instance in candidates:
            views = [view for thread in instance.threads.values() for view in thread.views]
            if any(view.is_source_of(signal) for view in views):
                return instance.track.key
            if all(view.source is not signal.source for view in views):
                others.append(instance.track.key)
        return others[0] if len(others) == 1 else None


def _create_track(key: InstanceKey, of_thread: Track) -> Track:
    """Return the track of an instance at zero, with the attributes of its first thread."""
    return Track(
        scope=Scope.STREAMS,
        key=key,
        member=of_thread.member,
        client_id=key.client_id,
        app=of_thread.app,
        source=of_thread.source,
        origin=of_thread.origin,
        since_at=of_thread.since_at,
        last_at=of_thread.last_at,
        confirmed_at=of_thread.confirmed_at,
    )


def _name(key: _Key) -> tuple[str, str]:
    instance = InstanceKey(*key)
    return instance.group, instance.client_id


def _is_compatible(one: Member, other: Member) -> bool:
    """Return True if both can be of one instance; an unknown cluster may be any."""
    clusters = {one.cluster, other.cluster} - {""}
    return len(clusters) < 2 and one.group_instance_id is None


def _target(instance: Instance) -> RebalanceStatus:
    threads = instance.threads.values()
    return instance_target(
        [thread.streams_follow_up.status for thread in threads],
        [thread.track.status for thread in threads],
    )
