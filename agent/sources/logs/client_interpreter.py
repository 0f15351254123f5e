"""Interpreter of the events of one log stream, client by client: events to signals.

Theory of operation. In the classic protocol, the demands of a sync are printed *after*
"Successfully synced", with an unbounded delay (the user's revoke callback runs in between), so the
sync is held until the client's "Adding newly assigned partitions": every completed join prints it,
after every follow-up. While a sync is held, later signals of the same consumer, and of the other
threads of the same Streams instance, are queued behind it in their lane, so that an instance shows
`2, 0, 2` in the order of events. In the new protocols two things are held: the join of a client
with an unknown cluster, and a new assignment of a Streams member until it is confirmed.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from agent.sources.lines.dialects.dialect import Action, LogEvent, Rule
from agent.sources.lines.parsing.origin_streams import name_stream
from agent.sources.lines.parsing.stream_parser import HELD_MAX_S
from agent.sources.logs.client_state import ClientState, PendingSignal
from agent.sources.logs.consumer_config import Client, Settings
from agent.sources.logs.namesakes import DROP_WAITS_S, PendingDrop, find_namesake, is_sure
from agent.sources.logs.partition_budget import NAMED_MAX, PartitionBudget
from agent.sources.logs.unplaced_causes import UnplacedCauses
from metrics.model.names import clip_name
from metrics.model.sample import clip_reason
from metrics.model.signals import FollowUp, Member, Signal, SignalKind, SourceKind, streams_thread
from metrics.model.status import RebalanceStatus

_LANE_LIMIT = 1_000
"""Signals behind one held sync; beyond that its end was surely missed."""

_CLIENT_LIMIT = 20_000
"""Clients of one stream; the longest silent is evicted first."""

_FEW_CLIENTS = 64
"""They are searched for the begin of a name; one program has no more of them."""

_NAMESAKE = "\0#"
"""In the key of a client with the names of another one: behind the other's."""

_KINDS = {
    Action.RAISE: SignalKind.RAISE,
    Action.FOLLOW_UP: SignalKind.RAISE,
    Action.STREAMS: SignalKind.RAISE,
    Action.SYNC: SignalKind.SYNC,
    Action.SETTLE: SignalKind.SYNC,
    Action.JOIN: SignalKind.JOIN,
    Action.LEAVE: SignalKind.LEAVE,
    Action.CLOSE: SignalKind.LEAVE,
    Action.FAIL: SignalKind.FAIL,
    Action.REFUSE: SignalKind.REFUSE,
    Action.STATE: SignalKind.SEEN,
}


@dataclass(slots=True)
class ClientInterpreter:
    """Interpreter of one stream; signals keep the order of events per consumer and instance."""

    stream: str
    cluster: str = ""
    group: str = ""
    """The group of clients that name none: the configured one."""
    host: str = ""
    is_host_configured: bool = False
    """The host is the user's choice; else the name of an origin replaces it."""
    source: SourceKind = SourceKind.LOGS
    clients: dict[str, ClientState] = field(default_factory=dict)
    lanes: dict[str, deque[PendingSignal]] = field(default_factory=dict)
    refusal: str = ""
    """Reason why the last event has no effect; empty where it has."""
    latest: ClientState | None = None
    """The client of the last event."""
    strangers: int = 0
    """Events of Streams threads with an unknown consumer: the group is not known."""
    eviction_count: int = 0
    """Number of clients evicted because of the limit."""
    look_back: Callable[[Client], Settings] = lambda _: Settings()
    """Search for a client's settings in the log before the current line."""
    find_group: Callable[[str], str] = lambda _: ""
    """Search for the group of a client, by its name, in the log before the current line."""
    on_mixed: Callable[[ClientState], None] = lambda _: None
    """Called once, with the first client whose lines are those of several processes."""
    is_mixed: bool = False
    ambiguous: int = 0
    """Causes of which several clients can be meant."""
    unplaced: UnplacedCauses = field(default_factory=UnplacedCauses)
    """Causes of which no client is known yet."""
    budget: PartitionBudget = field(default_factory=PartitionBudget)
    """Memory for partitions, which all streams of a source share."""
    partition_chars: int = 0
    """Its part of the budget."""
    namesakes: dict[str, list[str]] = field(default_factory=dict)
    """Keys of further clients with the names of one, by its key."""
    _drops: dict[str, PendingDrop] = field(default_factory=dict)
    """Drops of one of several clients; the leave behind each names it."""

    @property
    def sharers(self) -> Sequence[ClientState]:
        """Return the clients whose names others have, too; member ids distinguish them."""
        return [client for key in self.namesakes if (client := self.clients.get(key)) is not None]

    @property
    def parts(self) -> Sequence[str]:
        """Return the names of further streams: those of clients with the names of others."""
        if not self.namesakes:
            return ()
        most = max(map(len, self.namesakes.values()))
        return [f"consumer {number}" for number in range(2, most + 2)]

    @property
    def has_members(self) -> bool:
        """Return whether a client is in its group, as far as its lines show."""
        return any(
            client.has_joined or (client.member.member_id is not None and not client.left)
            for client in self.clients.values()
        )

    def has_settings(self, names: Client, head: str) -> bool:
        """Return whether a client has the settings below a line, its ``head``."""
        return any(
            each.settings_head == head and each.is_named(*names) for each in self.clients.values()
        )

    def derive(self, origin: str, host: str) -> "ClientInterpreter":
        """Return an interpreter for a stream within this one, with the name of its origin."""
        return ClientInterpreter(
            stream=name_stream(self.stream, origin),
            cluster=self.cluster,
            group=self.group,
            host=self.host if self.is_host_configured else host or self.host,
            is_host_configured=self.is_host_configured,
            source=self.source,
            look_back=self.look_back,
            find_group=self.find_group,
            on_mixed=self.on_mixed,
            budget=self.budget,
        )

    def take(self, event: LogEvent, at: float) -> list[Signal]:
        """Take one event at Unix seconds ``at``; return the signals that are ready."""
        is_due = self.unplaced.waiting or len(self.clients) > _CLIENT_LIMIT
        out = self._make_room(at) if is_due else []
        if event.rule.alone and any(each.member.client_id for each in self.clients.values()):
            self.refusal = "a text without a name, in a log whose other lines have it"
            return out
        client = self.latest = self._find_client(event)
        self.refusal = ""
        if client is None:
            self.refusal = self._set_aside(event, at)
            return out
        is_known = event.captures.get("member_id") in {None, client.member.member_id}
        if is_known and not self.namesakes:  # as in most logs: no other client has its names
            client.follow(event, at)
        elif self._may_have_namesakes(client, event):
            return out + self._apply_to_namesake(client, event, at)
        return out + self._apply(client, event, at)

    def _may_have_namesakes(self, client: ClientState, event: LogEvent) -> bool:
        """Return whether lines with a client's names may be others': no handle, no instance id."""
        is_dynamic = client.member.group_instance_id is None and "handle" not in event.captures
        return is_dynamic and self.clients.get(client.lane) is client

    def _apply_to_namesake(self, first: ClientState, event: LogEvent, at: float) -> list[Signal]:
        """Apply an event to the client that has printed it, of those with the names of one."""
        keys = self.namesakes.get(first.lane, ())
        own = [first, *(self.clients[key] for key in keys if key in self.clients)]
        if event.rule.drops and len(own) > 1 and not is_sure(event):
            self._drops[first.lane] = PendingDrop(event, at)
            self.refusal = "waits for a line that names its client"
            return []
        client = find_namesake(own, event, at) or self._add_namesake(own, event)
        self.latest, out = client, list[Signal]()
        client.follow(event, at)
        drop = self._drops.get(first.lane)
        if drop is not None and is_sure(event) and event.rule.parts:
            del self._drops[first.lane]
            if at - drop.at < DROP_WAITS_S:
                out = self._apply(client, drop.event, drop.at)
        return out + self._apply(client, event, at)

    def _add_namesake(self, own: Sequence[ClientState], event: LogEvent) -> ClientState:
        """Add a client with the names of others; its lines are mixed with theirs."""
        first, number = own[0], len(own) + 1
        part = f"consumer {number}"
        stream, key = name_stream(self.stream, part), f"{first.lane}{_NAMESAKE}{number}"
        member = replace(
            first.member, member_id=None, origin=stream, log_file=clip_name(stream), assignor=None
        )
        client = ClientState(
            member=member, lane=key, settings_head=first.settings_head, is_mixed=True
        )
        for each in own:
            self._forget_partitions(each)
            each.is_mixed = True
            each.member_ids = [
                known for known in each.member_ids if known != event.captures["member_id"]
            ]
        self.clients[key] = client
        self.namesakes.setdefault(first.lane, []).append(key)
        return client

    def _apply(self, client: ClientState, event: LogEvent, at: float) -> list[Signal]:
        """Apply an event of a client; return the signals that are ready."""
        out: list[Signal] = []
        if self.unplaced.waiting:
            out += self._place(client) if self.unplaced.is_named_by(event) else []
        rule = event.rule
        out += self._prepare(client, rule, at)
        misplaced = client.is_out_of_place(rule)
        outdated = (
            misplaced
            or (rule.drops and client.is_repeated_drop(rule, at))
            or (rule.may_be_late and client.is_outdated(event))
        )
        if outdated:
            self.refusal = "a late, repeated or misplaced report"
        if event.rule.action is Action.ANNOUNCE:
            client.announce(event, at, is_valid=not outdated)
        client.compare_generation(event, at)
        held = client.held
        if held is None or held.signal.kind is not SignalKind.RAISE:
            client.learn(event, self.cluster)
        else:
            changes = client.changes(event)  # before it is learnt
            client.learn(event, self.cluster)
            out += self._decide(client, held, changes)
        out += [] if outdated else self._do(client, event, at)
        if not rule.moves or (misplaced and rule.lists):  # other lists look the same
            return out
        return out + self._move(client, event, at)

    def _prepare(self, client: ClientState, rule: Rule, at: float) -> list[Signal]:
        """Return the signals that come before the event's own."""
        out = list[Signal]()
        if client.held is not None and at > client.held.signal.at + HELD_MAX_S:
            out += self._release(client)
        if rule.subscribes:
            out += self._settings(client, at)
        if rule.status is RebalanceStatus.NEW_MEMBER:
            out += self._take_partitions(client, at)
        return out

    def flush(self) -> list[Signal]:
        """Return all pending signals, at the end of the stream: held syncs have ended."""
        out = [signal for client in self.clients.values() for signal in self._release(client)]
        self.lanes.clear()
        self.budget.note(self.stream, 0)
        return out + self._place_overdue(math.inf)

    def release_overdue(self, until: float) -> list[Signal]:
        """Return the pending signals up to a time (Unix seconds): their end is not printed."""
        out = self._place_overdue(until + HELD_MAX_S)
        for client in self.clients.values():
            if client.held is not None and client.held.signal.at <= until:
                out += self._release(client)
        return out

    def horizon(self) -> float | None:
        """Return the time (Unix seconds) of the oldest signal that is held, if any."""
        held = [lane[0].signal.at for lane in self.lanes.values() if lane]
        held += [cause.signal.at for cause in self.unplaced.waiting]
        return min(held, default=None)

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint, in types that JSON can carry."""
        waiting = {key: list(lane) for key, lane in self.lanes.items() if lane}
        state: dict[str, Any] = msgspec.to_builtins(
            {"speakers": self.clients, "lanes": waiting, "strangers": self.strangers}
        )
        if self.unplaced.waiting:
            state["unplaced"] = self.unplaced.state()
        state["latest"] = next(
            (key for key, client in self.clients.items() if client is self.latest), None
        )
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`."""
        self.clients = msgspec.convert(state["speakers"], dict[str, ClientState])
        lanes = msgspec.convert(state["lanes"], dict[str, list[PendingSignal]])
        self.lanes = {key: deque(lane) for key, lane in lanes.items()}
        self.strangers = state["strangers"]
        self.unplaced.restore(state.get("unplaced", ()))
        self.latest = self.clients.get(state.get("latest") or "")
        self.namesakes = {}
        for key in self.clients:
            first, mark, _ = key.partition(_NAMESAKE)
            if mark:
                self.namesakes.setdefault(first, []).append(key)
        for client in self.clients.values():  # restore the identity of equal objects
            lane = self.lanes.get(client.lane, ())
            client.held = next((w for w in lane if w == client.held), None)
            client.clip_texts()
        self._resize(sum(client.partition_chars for client in self.clients.values()))

    def _set_aside(self, event: LogEvent, at: float) -> str:
        """Let a cause wait for its client; return why the event has no effect."""
        group = event.captures.get("group")
        is_raise = event.rule.action is Action.RAISE and group != "null"
        if is_raise and self._find_rival(group) is None and "thread" not in event.captures:
            member = Member(
                cluster=self.cluster,
                group=group or "",
                client_id="",
                origin=self.stream,
                host=self.host,
                log_file=clip_name(self.stream),
            )
            if self.unplaced.keep(event, at, member, self.source):
                return "waits for a line that names its client"
        else:
            self.ambiguous += event.rule.action is Action.RAISE
        return "no client, or several, can be meant"

    def _find_rival(self, group: str | None) -> ClientState | None:
        """Find a client that a cause could belong to."""
        clients = self.clients.values()
        return next((each for each in clients if group in {None, each.member.group}), None)

    def _place_overdue(self, now: float) -> list[Signal]:
        """Return the causes that wait for too long; their group stands for their client."""
        out = list[Signal]()
        while group := self.unplaced.find_overdue(now):
            client = self._find_rival(group) or self._find_or_create(group, "", group, None)
            out += self._place(client)
        return out

    def _place(self, client: ClientState) -> list[Signal]:
        """Return the causes that waited for a client."""
        causes = self.unplaced.take(client)
        client.is_reported = client.is_reported or bool(causes)
        if client.lane not in self.lanes:
            return causes
        self._lane(client).extend(PendingSignal(signal=cause) for cause in causes)
        return self._drain(client)

    def _decide(
        self, client: ClientState, held: PendingSignal, changes: bool | None
    ) -> list[Signal]:
        """Release a held cause, or drop it, by the event after it."""
        if held.signal.status is RebalanceStatus.COORDINATOR_REQUESTED:
            if changes is None:
                return []
            if not changes:
                self._lane(client).remove(held)
        held.signal = msgspec.structs.replace(held.signal, member=client.member)
        return self._release(client)

    def _do(self, client: ClientState, event: LogEvent, at: float) -> list[Signal]:
        if client.is_mixed and not self.is_mixed:
            self.is_mixed = True
            self.on_mixed(client)
        do = self._DOES.get(event.rule.action)
        return [] if do is None else do(self, client, event, at)

    def _find_client(self, event: LogEvent) -> ClientState | None:
        """Find the client of an event; without names it is the only client's, else nobody's."""
        seen, thread = event.captures, event.captures.get("thread")
        if thread is not None:
            client = self.clients.get(f"{thread}-consumer")
            self.strangers += client is None and event.rule.action is not Action.STATE
            return client
        client_id, group = seen.get("client_id", ""), seen.get("group")
        if event.rule.after and not client_id:  # the line behind one that names the client
            if self.latest is not None and "member_name" in seen:
                self._name(self.latest, seen["member_name"])
            return self.latest
        if group == "null":
            return None
        key = seen.get("handle", client_id)
        if client_id and group is not None:
            instance_id = seen.get("instance_id")
            if "handle" not in seen:
                key = self._find_key(client_id, group, instance_id)
            former = self.clients.get(key)
            client = self._find_or_create(key, client_id, group, instance_id)
            if former is not None and client is not former and key == group:
                client.replace_client(former, seen.get("generation"))
            return client
        return self._find_unnamed(event, key, group)

    def _find_key(self, client_id: str, group: str, instance_id: str | None) -> str:
        """Return the key of a client without a handle: its client id, if no other client has it.

        Consumers of one process may share a client id, in several groups or as static members.
        Threads of Streams do not: the latest has the name.
        """
        known = self.clients.get(client_id)
        if known is None or known.is_named(client_id, group, instance_id):
            return client_id
        if known.is_anonymous_in(group) or streams_thread(client_id) is not None:
            return client_id
        return "\0".join((client_id, group, instance_id or ""))

    def _find_unnamed(self, event: LogEvent, key: str, group: str | None) -> ClientState | None:
        """Find or create the client of an event that lacks a name: its handle had it before."""
        seen = event.captures
        client = self._find_by_handle(key, group) if key else self._find_by_group(group)
        name = seen.get("client_id") or seen.get("member_name", "")
        if client is None and group is None:
            client = self._find_above(key, name)
        if event.rule.anonymous and (client is None or client.is_anonymous_in(group or "")):
            return self._find_or_create(key or group or "", name, group or self.group, None)
        if client is None and group and self.unplaced.is_named_by(event):
            return self._find_or_create(key or group, name, group, None)
        if client is not None and "member_name" in seen:
            self._name(client, seen["member_name"])
        return client

    def _find_by_handle(self, key: str, group: str | None) -> ClientState | None:
        """Find the client of a handle.

        Where the group is the handle and stands at the end of a message, what a layout appends is
        no part of it. So a name with blanks is read up to the first of them.
        """
        client = self.clients.get(key)
        if client is not None or key != group or len(self.clients) > _FEW_CLIENTS:
            return client
        own = [each for name, each in self.clients.items() if name.startswith(f"{key} ")]
        return own[0] if len(own) == 1 else None

    def _find_above(self, key: str, client_id: str) -> ClientState | None:
        """Find or create the first client, or one with a handle, whose group a line above names."""
        if self.clients and not key:
            return None
        group = self.find_group(key) or self.group
        return self._find_or_create(key or group, client_id, group, None) if group else None

    def _name(self, client: ClientState, client_id: str) -> None:
        """Name a client and its join that waits, unless signals have reported it without a name."""
        if client.member.client_id:
            return
        client.name(client_id, None)
        if client.held is not None:
            client.held.signal = msgspec.structs.replace(client.held.signal, member=client.member)

    def _find_by_group(self, group: str | None) -> ClientState | None:
        """Find the only client, or the only one of a group; a file with several is ambiguous."""
        clients = [
            client for client in self.clients.values() if group in {None, client.member.group}
        ]
        return clients[0] if len(clients) == 1 else None

    def _find_or_create(
        self, key: str, client_id: str, group: str, instance_id: str | None
    ) -> ClientState:
        """Find or create the client, and put it last; other names are another client."""
        client = self.clients.pop(key, None)
        if client is not None and client.is_anonymous_in(group):
            client.name(client_id, instance_id)
        elif client is None or not client.is_named(client_id, group, instance_id):
            if client is not None:
                self._forget_partitions(client)
                if client.held is not None:
                    client.held.ready = True
            settings = self.look_back(Client(client_id, group, instance_id))
            member = Member(
                cluster=self.cluster,
                group=group,
                client_id=client_id,
                origin=self.stream,
                group_instance_id=instance_id,
                host=self.host,
                log_file=clip_name(self.stream),
                session_timeout_s=settings.session_timeout_s,
                max_poll_interval_s=settings.max_poll_interval_s,
                software=settings.software,
            )
            thread = streams_thread(client_id)
            lane = key if client_id else f"group {group}"
            lane = lane if thread is None else thread.instance
            client = ClientState(member=member, lane=lane, settings_head=settings.head)
        self.clients[key] = client
        return client

    def _make_room(self, now: float) -> list[Signal]:
        """Evict the client that was silent for longest, and place what waits for too long."""
        out = self._place_overdue(now)
        if len(self.clients) > _CLIENT_LIMIT:
            self.eviction_count += 1
            silent = self.clients.pop(next(iter(self.clients)))
            self._forget_partitions(silent)
            out += self._release(silent)
        return out

    def _hold(self, client: ClientState, event: LogEvent, at: float) -> list[Signal]:
        out = self._release(client)
        sync = self._signal(client, event, at)
        client.held = PendingSignal(signal=sync, ready=False)
        self._lane(client).append(client.held)
        return out

    def _move(self, client: ClientState, event: LogEvent, at: float) -> list[Signal]:
        """Report the partitions that the client reads from now on; too many are not known.

        Nor is known which of several processes reads them.
        """
        if client.is_mixed:
            self._forget_partitions(client)
            return []
        before, assigned = client.partition_chars, client.move(event)
        self._resize(client.partition_chars - before)
        if assigned is None:
            return []
        if len(assigned) > NAMED_MAX or self.budget.is_exceeded:
            self._forget_partitions(client)
            self.budget.forgotten += 1
            return []
        return self._report_partitions(client, at, assigned, event.captures.get("reason"))

    def _forget_partitions(self, client: ClientState) -> None:
        self._resize(-client.partition_chars)
        client.partitions.clear()

    def _resize(self, change_chars: int) -> None:
        self.partition_chars += change_chars
        self.budget.note(self.stream, self.partition_chars)

    def _report_partitions(
        self, client: ClientState, at: float, assigned: tuple[str, ...], reason: str | None = None
    ) -> list[Signal]:
        return self._report(client, at, assigned=assigned, reason=reason)

    def _report(
        self,
        client: ClientState,
        at: float,
        *,
        assigned: tuple[str, ...] | None = None,
        reason: str | None = None,
        closes: bool = False,
    ) -> list[Signal]:
        """Report what moves no status, in the order of the client's other signals."""
        signal = Signal(
            kind=SignalKind.SEEN,
            at=at,
            member=client.member,
            source=self.source,
            generation=client.generation,
            assigned=assigned,
            reason=clip_reason(reason),
            closes=closes,
        )
        if client.lane not in self.lanes:
            return [signal]
        self._lane(client).append(PendingSignal(signal=signal))
        return self._drain(client)

    def _end(self, client: ClientState, event: LogEvent, _at: float) -> list[Signal]:
        reason, held = event.captures.get("reason"), client.held
        if reason is not None and held is not None:  # an assignment with an error
            held.signal = msgspec.structs.replace(held.signal, reason=clip_reason(reason))
        return self._release(client)

    def _take_partitions(self, client: ClientState, at: float) -> list[Signal]:
        """Report that a client has no partitions: it is a new process, or a new member."""
        if not client.partitions:
            return []
        self._forget_partitions(client)
        return self._report_partitions(client, at, ())

    def _settings(self, client: ClientState, at: float) -> list[Signal]:
        """Search for the client's settings again: a client that subscribes may be a new one."""
        member = client.member
        found = self.look_back(Client(member.client_id, member.group, member.group_instance_id))
        out: list[Signal] = []
        if found == Settings():
            return out
        if found.head != client.settings_head:
            out = self._take_partitions(client, at)
            client.begin_again(found.head)
        known = Settings(
            member.max_poll_interval_s, member.session_timeout_s, found.head, member.software
        )
        if found != known:
            client.member = replace(
                member,
                max_poll_interval_s=found.max_poll_interval_s or known.max_poll_interval_s,
                session_timeout_s=found.session_timeout_s or known.session_timeout_s,
                software=found.software or known.software,
            )
        return out

    def _close(self, client: ClientState, event: LogEvent, at: float) -> list[Signal]:
        """Let a dropped member leave, and report that one closed which is to expire.

        The first has no member id, so it sends no LeaveGroup; the others send none by intention.
        """
        if client.left:
            return []
        if client.dropped:
            return self._pass(client, event, at)
        if not client.has_joined:
            return []
        client.has_joined = False
        return [*self._take_partitions(client, at), *self._report(client, at, closes=True)]

    def _demand(self, client: ClientState, event: LogEvent, at: float) -> list[Signal]:
        held = client.held
        if held is None:
            return self._pass(client, event, at)
        follow_up, sync = _follow_up(event, at), held.signal
        if event.rule.action is Action.FOLLOW_UP:
            held.signal = msgspec.structs.replace(sync, follow_up=follow_up)
        else:
            held.signal = msgspec.structs.replace(sync, streams_follow_up=follow_up)
        return []

    def _release(self, client: ClientState) -> list[Signal]:
        if client.held is None:
            return []
        client.held.ready, client.held = True, None
        return self._drain(client)

    def _pass(self, client: ClientState, event: LogEvent, at: float) -> list[Signal]:
        is_unnamed = client.is_unnamed(event.rule)
        is_released = event.rule.ends_sync or not client.is_reported  # a join that had no name
        out = self._release(client) if is_released else []
        signal = self._signal(client, event, at)
        client.is_reported = not is_unnamed
        causes = client.causes_before(signal) if client.announced or client.returned else ()
        waits = is_unnamed or client.is_nowhere(event.rule) or client.is_unsure(event.rule)
        if client.lane not in self.lanes and not waits:
            return [*out, *causes, signal]
        lane = self._lane(client)
        lane.extend(PendingSignal(signal=cause) for cause in causes)
        waiting = PendingSignal(signal=signal, ready=not waits)
        lane.append(waiting)
        client.held = waiting if waits else client.held
        if len(lane) > _LANE_LIMIT:
            for waiting in lane:
                waiting.ready = True
        return out + self._drain(client)

    def _drain(self, client: ClientState) -> list[Signal]:
        lane, out = self._lane(client), list[Signal]()
        while lane and lane[0].ready:
            out.append(lane.popleft().signal)
        if not lane:
            del self.lanes[client.lane]
        return out

    def _lane(self, client: ClientState) -> deque[PendingSignal]:
        lane = self.lanes.get(client.lane)
        if lane is None:
            lane = self.lanes[client.lane] = deque()
        return lane

    def _signal(self, client: ClientState, event: LogEvent, at: float) -> Signal:
        rule, layer = event.rule, None
        client.is_reported = True
        is_layers = rule.action is Action.STREAMS
        if is_layers or (rule.schedules and _is_scheduled(event)):
            layer = _follow_up(event, at)
        return Signal(
            kind=_KINDS[rule.action],
            at=at,
            member=client.member,
            source=self.source,
            status=RebalanceStatus.NONE if is_layers else rule.status,
            reason=clip_reason(event.captures.get("reason")),
            generation=client.generation,
            streams_follow_up=layer,
            is_muted=client.is_muted,
        )

    _DOES: ClassVar[dict[Action, Callable[..., list[Signal]]]] = {
        Action.SYNC: _hold,
        Action.ASSIGNED: _end,
        Action.CLOSE: _close,
        Action.FOLLOW_UP: _demand,
        Action.STREAMS: _demand,
        **dict.fromkeys(
            (
                Action.RAISE,
                Action.SETTLE,
                Action.JOIN,
                Action.LEAVE,
                Action.FAIL,
                Action.REFUSE,
                Action.STATE,
            ),
            _pass,
        ),
    }


def _is_scheduled(event: LogEvent) -> bool:
    """Return whether Streams triggers a follow-up scheduled for a time, AssignmentProbing (11)."""
    return event.rule.action is Action.RAISE and bool(_due_at(event))


def _follow_up(event: LogEvent, at: float) -> FollowUp:
    streams = event.rule.action is Action.RAISE
    return FollowUp(
        status=RebalanceStatus.ASSIGNMENT_PROBING if streams else event.rule.status,
        at=at,
        reason=clip_reason(event.captures.get("reason")),
        due_at=_due_at(event),
    )


def _due_at(event: LogEvent) -> float | None:
    """Return a scheduled time; 0 is "at once"."""
    if "due_ms" in event.captures:
        return int(event.captures["due_ms"]) / 1000
    if "due" in event.captures:  # Utils.toLogDateTimeFormat: "2026-11-21 06:38:10,982 Z"
        text = event.captures["due"].replace(",", ".").replace(" Z", "+00:00")
        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError:
            return None
    return None
