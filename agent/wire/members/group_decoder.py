"""Requests and answers in, signals out: the one place that knows members and protocols together.

Theory of operation. Each request finds its member (`agent.wire.members.member_registry`), is read
for what it says itself, and leaves its member and the member's life with the answer to come. An
answer to what was asked before a leave, or in an older generation, is void: it tells of a time that
is over.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.wire.codec.messages import (
    ClientSoftware,
    Cluster,
    Commit,
    Coordinators,
    Errors,
    GroupHeartbeat,
    GroupHeartbeatAnswer,
    Heartbeat,
    InGroup,
    Join,
    JoinAnswer,
    Leave,
    Leaver,
    Node,
    Sync,
    SyncAnswer,
)
from agent.wire.connection import Answer, Closed, Connection, Event, Request
from agent.wire.members import classic_protocol as classic
from agent.wire.members import heartbeat_protocol as consumer_group
from agent.wire.members.member import Speaker
from agent.wire.members.member_registry import Speakers
from metrics.model.signals import Signal, SignalKind

_PORTS_LIMIT = 64


class Asked(NamedTuple):
    """What a request leaves for its answer."""

    speaker: Speaker
    life: int


@dataclass(slots=True)
class Interpreter:
    """Gives the signals of every member that a decoder sees."""

    cluster: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    ports: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Where brokers listen, as the answers of FindCoordinator and Metadata say; the latest last."""
    speakers: Speakers = field(init=False)

    def __post_init__(self) -> None:
        self.speakers = Speakers(cluster=self.cluster, counts=self.counts)

    def take(self, event: Event) -> list[Signal]:
        """Take one event; return what it tells of members, in order."""
        match event:
            case Request():
                return self._request(event)
            case Answer():
                return self._answer(event)
            case Closed(connection=connection):
                self.speakers.leave_connection(connection)
                return []

    def _request(self, request: Request) -> list[Signal]:
        match request.message:
            case ClientSoftware(name=name, version=version):
                request.connection.software = f"{name} {version}".strip() or None
            case Join() as join:
                return self._join(request, join)
            case GroupHeartbeat() as heartbeat:
                return self._group_heartbeat(request, heartbeat)
            case Leave() as leave:
                leaves = self._leave if len(leave.leavers) == 1 else self._removed
                return [
                    signal
                    for leaver in leave.leavers
                    for signal in leaves(request, leave.group, leaver)
                ]
            case InGroup() as message if _is_by_member(request.connection, message):
                speaker = self.speakers.meet(
                    request, message.group, message.member_id, message.instance_id
                )
                request.context = Asked(speaker, speaker.life)
        return []

    def _join(self, request: Request, join: Join) -> list[Signal]:
        known = request.connection.speakers.get(join.group)
        assignor = None if known is None else known.member.assignor
        metadata = classic.read_metadata(join, assignor, self.counts)
        process_id = None if metadata[1] is None else metadata[1].process_id
        speaker = self.speakers.meet(
            request, join.group, join.member_id, join.instance_id, process_id
        )
        timeout_ms = join.rebalance_timeout_ms
        speaker.learn(
            protocol_type=join.protocol_type,
            group_type="classic",
            max_poll_interval_s=timeout_ms / 1000 if timeout_ms and timeout_ms > 0 else None,
        )
        speaker.gaps = request.connection.gaps
        request.context = Asked(speaker, speaker.life)
        return classic.join_sent(speaker, join, metadata, request.at)

    def _group_heartbeat(self, request: Request, heartbeat: GroupHeartbeat) -> list[Signal]:
        speaker = self.speakers.meet(
            request,
            heartbeat.group,
            heartbeat.member_id,
            heartbeat.instance_id,
            heartbeat.process_id,
        )
        timeout_ms = heartbeat.rebalance_timeout_ms
        speaker.learn(
            group_type=heartbeat.group_type,
            max_poll_interval_s=timeout_ms / 1000 if timeout_ms and timeout_ms > 0 else None,
        )
        signals = consumer_group.sent(speaker, heartbeat, request.at)
        if heartbeat.epoch >= 0:  # what a leave is answered concerns nobody
            request.context = Asked(speaker, speaker.life)
        return signals

    def _leave(self, request: Request, group: str, leaver: Leaver) -> list[Signal]:
        speaker = self._own(request.connection, group, leaver)
        if speaker is None:
            return self._removed(request, group, leaver)
        return classic.left(speaker, leaver, request.at)

    def _own(self, connection: Connection, group: str, leaver: Leaver) -> Speaker | None:
        """Return who leaves by itself; None if someone else (an admin) makes it leave."""
        here: Speaker | None = connection.speakers.get(group)
        named = self.speakers.named(group, leaver.member_id)
        if here is not None and (
            here is named
            or (leaver.instance_id and leaver.instance_id == here.member.group_instance_id)
        ):
            return here
        client_id = connection.client_id or ""
        if named is not None:
            return named if named.member.client_id == client_id else None
        return here if leaver.member_id.startswith(f"{client_id}-") else None

    def _removed(self, request: Request, group: str, leaver: Leaver) -> list[Signal]:
        """Note why an admin removed a member: nobody's code, but it explains the group.

        It names static members by their instance alone; no member makes another one leave, whatever
        its client id.
        """
        victim = self.speakers.named(group, leaver.member_id)
        if victim is None and leaver.instance_id is not None:
            victim = self.speakers.static(group, leaver.instance_id)
        if victim is None:
            self.counts["removed_unknown"] += 1
            return []
        return [victim.signal(SignalKind.NOTE, request.at, reason=leaver.reason)]

    def _answer(self, answer: Answer) -> list[Signal]:
        request, asked = answer.request, answer.request.context
        match answer.message:
            case Cluster(cluster_id=cluster_id, brokers=brokers):
                self._learn_ports(brokers)
                if cluster_id is not None:
                    self.speakers.learn_cluster(request.connection.server, cluster_id)
            case Coordinators(nodes=nodes):
                self._learn_ports(nodes)
        if not isinstance(asked, Asked):
            return []
        speaker = asked.speaker.merged_into or asked.speaker
        return [] if asked.life < speaker.life else self._tell(speaker, answer)

    def _tell(self, speaker: Speaker, answer: Answer) -> list[Signal]:
        request, at = answer.request, answer.at
        match request.message, answer.message:
            case Join(), JoinAnswer() as joined:
                speaker = self.speakers.name(speaker, joined.member_id)
                return classic.join_answered(speaker, joined, at)
            case GroupHeartbeat() as heartbeat, GroupHeartbeatAnswer() as beat:
                speaker = self.speakers.name(speaker, beat.member_id)
                return consumer_group.answered(speaker, heartbeat, request.at, beat, at)
            case InGroup() as asked, message if not _is_outdated(speaker, asked):
                return self._tell_in_group(speaker, asked, answer, message)
        return []

    def _tell_in_group(
        self, speaker: Speaker, asked: InGroup, answer: Answer, message: object
    ) -> list[Signal]:
        match asked, message:
            case Sync(), SyncAnswer() as synced:
                return classic.sync_answered(speaker, synced, self.counts, answer.at)
            case Heartbeat(), Errors(errors=errors):
                if not any(errors) and self._has_lost_sync(speaker, asked, answer.request):
                    return classic.heartbeat_after_loss(speaker, asked, answer.at)
                return classic.in_group_answered(speaker, asked, errors, "Heartbeat", answer.at)
            case Commit(), Errors(errors=errors):
                return classic.in_group_answered(speaker, asked, errors, "OffsetCommit", answer.at)
        return []

    def _has_lost_sync(self, speaker: Speaker, asked: InGroup, request: Request) -> bool:
        """Tell whether an accepted heartbeat shows the end of a round that was not seen."""
        known = speaker.generation
        lost = speaker.unsynced and request.connection.gaps > speaker.gaps
        return lost or (known is not None and asked.generation > known)

    def _learn_ports(self, brokers: Iterable[Node]) -> None:
        for broker in brokers:
            if 0 < broker.port < 1 << 16:
                self.ports[broker.port] = None
                self.ports.move_to_end(broker.port)
        while len(self.ports) > _PORTS_LIMIT:
            self.ports.popitem(last=False)


def _is_by_member(connection: Connection, asked: InGroup) -> bool:
    """Tell whether a member asks: one that finds its session expired has dropped its id.

    librdkafka's next heartbeat is without one: rd_kafka_cgrp_session_timeout_check.
    """
    return asked.generation >= 0 and bool(asked.member_id or asked.group in connection.speakers)


def _is_outdated(speaker: Speaker, asked: InGroup) -> bool:
    """Tell whether a request was sent in an older generation, or as an earlier member."""
    known = speaker.generation
    return (known is not None and asked.generation < known) or (
        asked.member_id not in {"", speaker.member.member_id}
    )
