"""Kafka Streams instances: what their threads' consumers and layers add up to.

An instance shows its layer's code (10-13) where one of its threads has any, else the largest of its
consumers, and its status keeps the only-upward rule of its own: driven to 6 and 1 by two threads it
stays at 6 until all of it is at zero (semantics.md 2).
"""

from dataclasses import dataclass, replace

from metrics.sample import Outcome, Sample, Scope
from metrics.signals import FollowUp, InstanceKey, Member, MemberKey
from metrics.status import RebalanceStatus
from metrics.track import Track
from metrics.transition import instance_target, stale_at, transition

NONE = RebalanceStatus.NONE


@dataclass(slots=True, kw_only=True)
class Layer:
    """What a thread's last assignment demands of its instance. Instants are Unix seconds."""

    status: RebalanceStatus = NONE
    due_at: float | None = None

    def demand(self, follow_up: FollowUp) -> None:
        """Take a follow-up; only upward."""
        self.status = max(self.status, follow_up.status)
        if follow_up.due_at is not None:
            self.due_at = follow_up.due_at

    def clear(self) -> None:
        """Hold nothing: the assignment demanded no immediate follow-up."""
        self.status, self.due_at = NONE, None

    def stale_at(self, confirmed_at: float, stale_after_s: float) -> float | None:
        """Return when the demand is lost if nothing confirms it."""
        return stale_at(self.status, confirmed_at, self.due_at, stale_after_s)


@dataclass(slots=True)
class Instance:
    """An instance's own track and its threads: each a consumer's track and layer."""

    track: Track
    threads: dict[MemberKey, tuple[Track, Layer]]


class Instances:
    """Every Streams instance, by key."""

    def __init__(self, tracks: list[Track]) -> None:
        self._by_key: dict[InstanceKey, Instance] = {
            key: Instance(track, {}) for track in tracks if (key := track.member.instance_key)
        }

    @property
    def tracks(self) -> list[Track]:
        """The instances' own tracks."""
        return [instance.track for instance in self._by_key.values()]

    def enlist(self, thread: Track, layer: Layer) -> None:
        """Make a consumer one of its instance's threads; plain consumers are passed over."""
        key = thread.member.instance_key
        if key is None:
            return
        if key not in self._by_key:
            own = Track(
                scope=Scope.STREAMS,
                member=thread.member,
                client_id=key.client_id,
                app=thread.app,
                source=thread.source,
                since_at=thread.since_at,
                last_at=thread.last_at,
                confirmed_at=thread.confirmed_at,
            )
            self._by_key[key] = Instance(own, {})
        self._by_key[key].threads[thread.member.key] = (thread, layer)

    def dismiss(self, thread: Track) -> None:
        """Forget a thread, and the instance with its last one."""
        instance = self._find(thread.member)
        if instance is not None:
            del instance.threads[thread.member.key]
            if not instance.threads and thread.member.instance_key is not None:
                del self._by_key[thread.member.instance_key]

    def track_of(self, thread: Track) -> Track | None:
        """Return the track of the thread's instance; None for a plain consumer."""
        instance = self._find(thread.member)
        return None if instance is None else instance.track

    def meet(self, thread: Track, at: float) -> None:
        """Let the instance know that one of its threads has spoken."""
        track = self.track_of(thread)
        if track is not None:
            track.meet(replace(thread.member, member_id=None), thread.source, at)
            track.generation, track.confirmed_at = thread.generation, thread.confirmed_at

    def follow(
        self, thread: Track, at: float, reason: str | None, outcome: Outcome | None = None
    ) -> list[Sample]:
        """Bring the instance of ``thread`` up to date after the thread has moved."""
        instance = self._find(thread.member)
        if instance is None:
            return []
        track = instance.track
        to = transition(track.status, self._target(instance))
        if to is track.status:
            return []
        sample = track.move(to, at, reason, outcome if to is NONE else None)
        track.left_at = track.since_at if outcome is Outcome.LEFT else None
        return [sample]

    def lose(self, thread: Track, at: float, reason: str) -> list[Sample]:
        """Drop an instance's status when what held it was lost."""
        instance = self._find(thread.member)
        if instance is None or instance.track.status is NONE or self._target(instance) is not NONE:
            return []
        return [instance.track.lose(at, reason)]

    def _find(self, member: Member) -> Instance | None:
        key = member.instance_key
        return None if key is None else self._by_key.get(key)

    def _target(self, instance: Instance) -> RebalanceStatus:
        threads = instance.threads.values()
        return instance_target(
            [layer.status for _, layer in threads], [track.status for track, _ in threads]
        )
