"""From what lines say to signals: the meaning of one log stream, client by client.

Theory of operation. In the classic protocol, what a sync demands is printed *after* "Successfully
synced", with an unbounded delay (the user's own revoke callback runs in between), so the sync is
held until the client's "Adding newly assigned partitions": every completed join prints it, and
every follow-up stands before it. While a sync is held, later signals of the same consumer, and of
the other threads of the same Streams instance, wait behind it in their lane, so that an instance
sees `2, 0, 2` in the order of events. In the new protocols nothing is held but the join of a client
that has not told its cluster yet, and a Streams member's new assignment until it shows that it is
one.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from agent.sources.lines.dialect import Action, LogEvent
from agent.sources.logs.client_state import ClientState, PendingSignal
from agent.sources.logs.consumer_config import Client
from metrics.model.signals import FollowUp, Member, Signal, SignalKind, SourceKind, streams_thread
from metrics.model.status import RebalanceStatus

_LANE_LIMIT = 1_000
"""Signals that wait behind one held sync; beyond that its end was surely missed."""

_SPEAKER_LIMIT = 20_000
"""Clients remembered in one stream; the longest silent goes first."""

_KINDS = {
    Action.RAISE: SignalKind.RAISE,
    Action.FOLLOW_UP: SignalKind.RAISE,
    Action.STREAMS: SignalKind.RAISE,
    Action.SYNC: SignalKind.SYNC,
    Action.SETTLE: SignalKind.SYNC,
    Action.JOIN: SignalKind.JOIN,
    Action.LEAVE: SignalKind.LEAVE,
    Action.FAIL: SignalKind.FAIL,
    Action.STATE: SignalKind.SEEN,
}


@dataclass(slots=True)
class ClientInterpreter:
    """Turns events into signals, in the order of events per consumer and instance."""

    stream: str
    cluster: str = ""
    host: str = ""
    source: SourceKind = SourceKind.LOGS
    clients: dict[str, ClientState] = field(default_factory=dict)
    lanes: dict[str, deque[PendingSignal]] = field(default_factory=dict)
    strangers: int = 0
    """Events of a Streams thread whose consumer has not spoken yet: the group is not known."""
    evicted: int = 0
    """Clients that were forgotten because there were too many."""
    look_back: Callable[[Client], float | None] = lambda _: None
    """Finds a client's max.poll.interval (s) in the log before the line that is taken."""

    def take(self, event: LogEvent, at: float) -> list[Signal]:
        """Take one event at Unix seconds ``at``; return the signals that are ripe."""
        out = self._evict() if len(self.clients) > _SPEAKER_LIMIT else []
        speaker = self._find_client(event)
        if speaker is None:
            return out
        if event.rule.subscribes:
            self._settings(speaker)
        outdated = event.rule.may_be_late and speaker.is_outdated(event)
        held = speaker.held
        if held is None or held.signal.kind is not SignalKind.RAISE:
            speaker.learn(event, self.cluster)
        else:
            changes = speaker.changes(event)  # before it is learnt
            speaker.learn(event, self.cluster)
            out += self._decide(speaker, held, changes)
        return out if outdated else out + self._do(speaker, event, at)

    def flush(self) -> list[Signal]:
        """Return all that waits, at the end of the stream: held syncs ended as far as was seen."""
        out = [signal for speaker in self.clients.values() for signal in self._release(speaker)]
        self.lanes.clear()
        return out

    def horizon(self) -> float | None:
        """Return the time (Unix seconds) of the oldest sync that is held, if any."""
        return min((lane[0].signal.at for lane in self.lanes.values() if lane), default=None)

    def state(self) -> dict[str, Any]:
        """Return what a restart needs, in types that JSON can carry."""
        waiting = {key: list(lane) for key, lane in self.lanes.items() if lane}
        state: dict[str, Any] = msgspec.to_builtins(
            {"speakers": self.clients, "lanes": waiting, "strangers": self.strangers}
        )
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a `state` again."""
        self.clients = msgspec.convert(state["speakers"], dict[str, ClientState])
        lanes = msgspec.convert(state["lanes"], dict[str, list[PendingSignal]])
        self.lanes = {key: deque(lane) for key, lane in lanes.items()}
        self.strangers = state["strangers"]
        for speaker in self.clients.values():  # one object again, not two equal ones
            lane = self.lanes.get(speaker.lane, ())
            speaker.held = next((w for w in lane if w == speaker.held), None)

    def _decide(
        self, speaker: ClientState, held: PendingSignal, changes: bool | None
    ) -> list[Signal]:
        """Let a held cause go, or take it back, by what the event after it shows."""
        if held.signal.status is RebalanceStatus.COORDINATOR_REQUESTED:
            if changes is None:
                return []
            if not changes:
                self._lane(speaker).remove(held)
        held.signal = msgspec.structs.replace(held.signal, member=speaker.member)
        return self._release(speaker)

    def _do(self, speaker: ClientState, event: LogEvent, at: float) -> list[Signal]:
        do = self._DOES.get(event.rule.action)
        return [] if do is None else do(self, speaker, event, at)

    def _find_client(self, event: LogEvent) -> ClientState | None:
        """Find who speaks; a line that names nobody is the only client's, else nobody's."""
        seen, thread = event.captures, event.captures.get("thread")
        if thread is not None:
            speaker = self.clients.get(f"{thread}-consumer")
            self.strangers += speaker is None and event.rule.action is not Action.STATE
            return speaker
        client_id, group = seen.get("client_id", ""), seen.get("group")
        key = seen.get("handle", client_id)
        if group == "null":
            return None
        if client_id and group is not None:
            return self._find_or_create(key, client_id, group, seen.get("instance_id"))
        if key:  # what such a line leaves out is what its handle named before
            return self.clients.get(key)
        return next(iter(self.clients.values())) if len(self.clients) == 1 else None

    def _find_or_create(
        self, key: str, client_id: str, group: str, instance_id: str | None
    ) -> ClientState:
        """Find or make the client, and put it last; another name, group or id is another one."""
        speaker = self.clients.pop(key, None)
        if speaker is None or not speaker.is_named(client_id, group, instance_id):
            if speaker is not None and speaker.held is not None:
                speaker.held.ready = True
            member = Member(
                cluster=self.cluster,
                group=group,
                client_id=client_id,
                stream=self.stream,
                group_instance_id=instance_id,
                host=self.host,
                max_poll_interval_s=self.look_back(Client(client_id, group, instance_id)),
            )
            thread = streams_thread(client_id)
            speaker = ClientState(
                member=member, lane=client_id if thread is None else thread.instance
            )
        self.clients[key] = speaker
        return speaker

    def _evict(self) -> list[Signal]:
        """Forget the client that has been silent for longest."""
        self.evicted += 1
        return self._release(self.clients.pop(next(iter(self.clients))))

    def _hold(self, speaker: ClientState, event: LogEvent, at: float) -> list[Signal]:
        out = self._release(speaker)
        sync = self._signal(speaker, event, at)
        speaker.held = PendingSignal(signal=sync, ready=False)
        self._lane(speaker).append(speaker.held)
        return out

    def _end(self, speaker: ClientState, _event: LogEvent, _at: float) -> list[Signal]:
        return self._release(speaker)

    def _announce(self, speaker: ClientState, event: LogEvent, at: float) -> list[Signal]:
        speaker.announce(event, at)
        return []

    def _settings(self, speaker: ClientState) -> None:
        """Look for the client's settings again: what subscribes may be made anew."""
        member = speaker.member
        found = self.look_back(Client(member.client_id, member.group, member.group_instance_id))
        if found not in {None, member.max_poll_interval_s}:
            speaker.member = replace(member, max_poll_interval_s=found)

    def _demand(self, speaker: ClientState, event: LogEvent, at: float) -> list[Signal]:
        held = speaker.held
        if held is None:
            return self._pass(speaker, event, at)
        follow_up, sync = _follow_up(event, at), held.signal
        if event.rule.action is Action.FOLLOW_UP:
            held.signal = msgspec.structs.replace(sync, follow_up=follow_up)
        else:
            held.signal = msgspec.structs.replace(sync, streams_follow_up=follow_up)
        return []

    def _release(self, speaker: ClientState) -> list[Signal]:
        if speaker.held is None:
            return []
        speaker.held.ready, speaker.held = True, None
        return self._drain(speaker)

    def _pass(self, speaker: ClientState, event: LogEvent, at: float) -> list[Signal]:
        out = self._release(speaker) if event.rule.ends_sync else []
        signal = self._signal(speaker, event, at)
        waits = speaker.is_nowhere(event.rule) or speaker.is_unsure(event.rule)
        if speaker.lane not in self.lanes and speaker.announced is None and not waits:
            out.append(signal)
            return out
        lane = self._lane(speaker)
        if speaker.announced and signal.status is RebalanceStatus.COORDINATOR_REQUESTED:
            lane.extend(PendingSignal(signal=cause) for cause in speaker.explain(signal))
        waiting = PendingSignal(signal=signal, ready=not waits)
        lane.append(waiting)
        speaker.held = waiting if waits else speaker.held
        if len(lane) > _LANE_LIMIT:
            for waiting in lane:
                waiting.ready = True
        return out + self._drain(speaker)

    def _drain(self, speaker: ClientState) -> list[Signal]:
        lane, out = self._lane(speaker), list[Signal]()
        while lane and lane[0].ready:
            out.append(lane.popleft().signal)
        if not lane:
            del self.lanes[speaker.lane]
        return out

    def _lane(self, speaker: ClientState) -> deque[PendingSignal]:
        lane = self.lanes.get(speaker.lane)
        if lane is None:
            lane = self.lanes[speaker.lane] = deque()
        return lane

    def _signal(self, speaker: ClientState, event: LogEvent, at: float) -> Signal:
        rule, layer = event.rule, None
        is_layers = rule.action is Action.STREAMS
        if is_layers or (rule.schedules and _is_scheduled(event)):
            layer = _follow_up(event, at)
        return Signal(
            kind=_KINDS[rule.action],
            at=at,
            member=speaker.member,
            source=self.source,
            status=RebalanceStatus.NONE if is_layers else rule.status,
            reason=event.captures.get("reason"),
            generation=speaker.generation,
            streams_follow_up=layer,
        )

    _DOES: ClassVar[dict[Action, Callable[..., list[Signal]]]] = {
        Action.SYNC: _hold,
        Action.ASSIGNED: _end,
        Action.FOLLOW_UP: _demand,
        Action.STREAMS: _demand,
        Action.ANNOUNCE: _announce,
        **dict.fromkeys(
            (
                Action.RAISE,
                Action.SETTLE,
                Action.JOIN,
                Action.LEAVE,
                Action.FAIL,
                Action.STATE,
            ),
            _pass,
        ),
    }


def _is_scheduled(event: LogEvent) -> bool:
    """Tell whether Streams triggers a follow-up that was scheduled for a time: that is 11."""
    return event.rule.action is Action.RAISE and bool(_due_at(event))


def _follow_up(event: LogEvent, at: float) -> FollowUp:
    streams = event.rule.action is Action.RAISE
    return FollowUp(
        status=RebalanceStatus.ASSIGNMENT_PROBING if streams else event.rule.status,
        at=at,
        reason=event.captures.get("reason"),
        due_at=_due_at(event),
    )


def _due_at(event: LogEvent) -> float | None:
    """Read a scheduled time; 0 is "at once"."""
    if "due_ms" in event.captures:
        return int(event.captures["due_ms"]) / 1000
    if "due" in event.captures:  # Utils.toLogDateTimeFormat: "2026-11-21 06:38:10,982 Z"
        text = event.captures["due"].replace(",", ".").replace(" Z", "+00:00")
        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError:
            return None
    return None
