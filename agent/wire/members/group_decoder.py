"""Requests and responses in, signals out: the one place that knows members and protocols together.

Theory of operation. Each request finds its member (`agent.wire.members.member_registry`), reports
its own causes, and keeps its member and the member's incarnation for the response. A response to a
request from before a leave, or of an older generation, is void: it belongs to an ended membership.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from agent.wire.codec.messages import (
    AuthenticationResult,
    ClientSoftware,
    ClusterMetadata,
    CommitRequest,
    CoordinatorLookup,
    CoordinatorNodes,
    ErrorResponse,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    HeartbeatRequest,
    HostPort,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeavingMember,
    MemberRequest,
    SentHeartbeat,
    SyncRequest,
    SyncResponse,
)
from agent.wire.connection import (
    ConnectionClosed,
    ConnectionDecoder,
    DecodedRequest,
    DecodedResponse,
    Event,
)
from agent.wire.members import classic_protocol as classic
from agent.wire.members import heartbeat_protocol as consumer_group
from agent.wire.members.error_codes import describe_error
from agent.wire.members.member import WireMember
from agent.wire.members.member_registry import MemberRegistry, RequestContext
from agent.wire.members.topic_names import TopicNames
from metrics.model.names import clip_name
from metrics.model.signals import Signal, SignalKind

_PORTS_LIMIT = 64
_WITH_TOPIC_IDS = {"consumer", "share"}
"""Types of groups whose assignments have topic ids."""
_ASSIGNORS_MAX = 20
"""Assignors that are kept of a member's join."""


@dataclass(slots=True)
class GroupDecoder:
    """A decoder of the signals of every member."""

    cluster: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    ports: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Brokers' ports, as the responses of FindCoordinator and Metadata name them, latest last."""
    topic_names: TopicNames = field(default_factory=TopicNames)
    registry: MemberRegistry = field(init=False)

    def __post_init__(self) -> None:
        self.registry = MemberRegistry(cluster=self.cluster, counts=self.counts)

    def decode(self, event: Event) -> list[Signal]:
        """Take one event; return its signals, in order."""
        match event:
            case DecodedRequest():
                return self._name_topics(self._handle_request(event))
            case DecodedResponse():
                return self._name_topics(self._handle_response(event))
            case ConnectionClosed(connection=connection):
                self.registry.disconnect(connection)
                return []

    def _name_topics(self, signals: list[Signal]) -> list[Signal]:
        """Return signals with the names of topics in place of topic ids, in their partitions."""
        return [
            replace(each, assigned=self.topic_names.name_partitions(each.assigned))
            if each.assigned and each.member.group_type in _WITH_TOPIC_IDS
            else each
            for each in signals
        ]

    def _handle_request(self, request: DecodedRequest) -> list[Signal]:
        match request.message:
            case ClientSoftware(name=name, version=version):
                state = self.registry.state_of(request.connection)
                state.software = f"{name} {version}".strip() or None
            case JoinRequest() as join:
                return self._handle_join(request, join)
            case GroupHeartbeatRequest() as heartbeat:
                return self._handle_group_heartbeat(request, heartbeat)
            case LeaveRequest() as leave:
                return self._handle_leaves(request, leave)
            case CoordinatorLookup() as lookup:
                self._handle_lookup(request, lookup)
            case MemberRequest() as message if self._is_from_member(request.connection, message):
                member = self.registry.resolve(
                    request, message.group, message.member_id, message.instance_id
                )
                if isinstance(message, CommitRequest):
                    member.record_commit(request.at)
                self._remember(request, member, message)
        return []

    def _remember(
        self,
        request: DecodedRequest,
        member: WireMember,
        content: MemberRequest | SentHeartbeat | CoordinatorLookup | None,
    ) -> None:
        """Keep a request's sender and the content that the response needs."""
        contexts = self.registry.state_of(request.connection).contexts
        context = RequestContext(member, member.incarnation, content)
        contexts.add(request.correlation_id, context)
        self.registry.bound_partitions(member)

    def _is_from_member(self, connection: ConnectionDecoder, request: MemberRequest) -> bool:
        """Return whether a member sends: one with an expired session has dropped its id.

        librdkafka's next heartbeat is without one: rd_kafka_cgrp_session_timeout_check.
        """
        if request.generation < 0:
            return False
        is_known = self.registry.find_on(connection, request.group) is not None
        return bool(request.member_id) or is_known

    def _handle_join(self, request: DecodedRequest, join: JoinRequest) -> list[Signal]:
        known = self.registry.find_on(request.connection, join.group)
        assignor = None if known is None else known.identity.assignor
        metadata = classic.read_metadata(join, assignor, self.counts)
        process_id = None if metadata[1] is None else metadata[1].process_id
        member = self.registry.resolve(
            request, join.group, join.member_id, join.instance_id, process_id
        )
        timeout_ms, session_ms = join.rebalance_timeout_ms, join.session_timeout_ms
        member.learn(
            protocol_type=join.protocol_type,
            group_type="classic",
            assignors=tuple(clip_name(name) for name, _ in join.protocols[:_ASSIGNORS_MAX]) or None,
            session_timeout_s=session_ms / 1000 if session_ms and session_ms > 0 else None,
            max_poll_interval_s=timeout_ms / 1000 if timeout_ms and timeout_ms > 0 else None,
        )
        member.gaps_at_join = request.connection.gaps
        signals = classic.handle_join_request(member, join, metadata, request.at)
        self._remember(request, member, None)
        return signals

    def _handle_group_heartbeat(
        self, request: DecodedRequest, heartbeat: GroupHeartbeatRequest
    ) -> list[Signal]:
        member = self.registry.resolve(
            request,
            heartbeat.group,
            heartbeat.member_id,
            heartbeat.instance_id,
            heartbeat.process_id,
        )
        timeout_ms = heartbeat.rebalance_timeout_ms
        member.learn(
            group_type=heartbeat.group_type,
            max_poll_interval_s=timeout_ms / 1000 if timeout_ms and timeout_ms > 0 else None,
        )
        is_awaited = heartbeat.epoch >= 0 or consumer_group.is_unseen(member)
        signals = consumer_group.handle_request(member, heartbeat, request.at)
        if is_awaited:  # other responses to a leave concern no member
            sent = SentHeartbeat(heartbeat.epoch, is_full=bool(heartbeat.subscription))
            self._remember(request, member, sent)
        return signals

    def _handle_lookup(self, request: DecodedRequest, lookup: CoordinatorLookup) -> None:
        member = self.registry.find_client(request.connection, lookup.group)
        if member is not None:
            self._remember(request, member, lookup)

    def _handle_leaves(self, request: DecodedRequest, leave: LeaveRequest) -> list[Signal]:
        leaves = self._handle_leave if len(leave.members) == 1 else self._note_removal
        return [
            signal for leaver in leave.members for signal in leaves(request, leave.group, leaver)
        ]

    def _handle_leave(
        self, request: DecodedRequest, group: str, leaver: LeavingMember
    ) -> list[Signal]:
        member = self._find_leaving_member(request.connection, group, leaver)
        if member is None:
            return self._note_removal(request, group, leaver)
        return classic.handle_leave_request(member, leaver, request.at)

    def _find_leaving_member(
        self, connection: ConnectionDecoder, group: str, leaver: LeavingMember
    ) -> WireMember | None:
        """Return the member that leaves by itself; None if an admin removes it."""
        here = self.registry.find_on(connection, group)
        named = self.registry.find_by_id(group, leaver.member_id)
        if here is not None and (
            here is named
            or (leaver.instance_id and leaver.instance_id == here.identity.group_instance_id)
        ):
            return here
        client_id = connection.client_id or ""
        if named is not None:
            return named if named.identity.client_id == client_id else None
        return here if leaver.member_id.startswith(f"{client_id}-") else None

    def _note_removal(
        self, request: DecodedRequest, group: str, leaver: LeavingMember
    ) -> list[Signal]:
        """Note a removal by an admin, with its reason: no code, but it explains the group.

        It names static members by their instance alone; no member removes another one, whatever its
        client id. The victim itself may never have been seen.
        """
        connection = request.connection
        victim = self.registry.find_by_id(group, leaver.member_id)
        if victim is None and leaver.instance_id is not None:
            victim = self.registry.find_static(group, leaver.instance_id)
        identity = (
            self.registry.identify_stranger(connection, group, leaver)
            if victim is None
            else victim.identity
        )
        if identity is None:
            self.counts["removed_unknown"] += 1
            return []
        remover = {"client_id": connection.client_id or "", "host": connection.client.host}
        note = (victim or WireMember(identity=identity)).build_signal(
            SignalKind.NOTE, request.at, reason=leaver.reason
        )
        return [replace(note, by=msgspec.json.encode(remover).decode())]

    def _handle_response(self, response: DecodedResponse) -> list[Signal]:
        match response.message:
            case ClusterMetadata(cluster_id=cluster_id, brokers=brokers, topics=topics) as metadata:
                self._learn_ports(brokers)
                self.topic_names.learn(topics)
                if cluster_id is not None:
                    self.registry.learn_cluster(response.connection.server, cluster_id)
                return self._refuse_topics(response, metadata.refused)
            case CoordinatorNodes(nodes=nodes):
                self._learn_ports(nodes)
            case AuthenticationResult(error=error) if error:
                reason = f"SaslAuthenticate answered {describe_error(error)}"
                members = self.registry.list_on(response.connection)
                return [s for each in members for s in each.report_refusal(response.at, reason)]
        context = self.registry.take_context(response)
        if context is None:
            return []
        member = context.member.merged_into or context.member
        if context.incarnation < member.incarnation:
            return []
        signals = self._handle_member_response(member, context.request, response)
        self.registry.bound_partitions(member)
        return signals

    def _refuse_topics(self, response: DecodedResponse, topics: tuple[str, ...]) -> list[Signal]:
        """Return the refusals of the members that read topics without the right to read them."""
        if not topics:
            return []
        readers = self.registry.list_readers(response.connection, topics, response.at)
        reason = f"Metadata answered TOPIC_AUTHORIZATION_FAILED for {', '.join(sorted(topics))}"
        return [signal for each in readers for signal in each.report_refusal(response.at, reason)]

    def _handle_member_response(
        self,
        member: WireMember,
        request: MemberRequest | SentHeartbeat | CoordinatorLookup | None,
        response: DecodedResponse,
    ) -> list[Signal]:
        match request, response.message:
            case None, JoinResponse() as joined:
                member = self.registry.assign_id(member, joined.member_id)
                return classic.handle_join_response(member, joined, response.sent_at, response.at)
            case SentHeartbeat() as sent, GroupHeartbeatResponse() as beat:
                member = self.registry.assign_id(member, beat.member_id)
                return consumer_group.handle_response(
                    member, sent, response.sent_at, beat, response.at
                )
            case CoordinatorLookup(), CoordinatorNodes(error=error):
                return classic.handle_lookup_response(member, error, response.at)
            case MemberRequest() as sent, _ if not _is_outdated(member, sent):
                return self._handle_generation_response(member, sent, response)
        return []

    def _handle_generation_response(
        self, member: WireMember, sent: MemberRequest, response: DecodedResponse
    ) -> list[Signal]:
        match sent, response.message:
            case SyncRequest(), SyncResponse() as synced:
                return classic.handle_sync_response(member, synced, self.counts, response.at)
            case HeartbeatRequest(), ErrorResponse(errors=errors):
                if not any(errors) and self._has_lost_sync(member, sent, response.connection):
                    return classic.complete_lost_sync(member, sent, response.at)
                return classic.handle_member_response(
                    member, sent, errors, "Heartbeat", response.at
                )
            case CommitRequest(), ErrorResponse(errors=errors):
                return classic.handle_member_response(
                    member, sent, errors, "OffsetCommit", response.at
                )
        return []

    def _has_lost_sync(
        self, member: WireMember, sent: MemberRequest, connection: ConnectionDecoder
    ) -> bool:
        """Return whether an accepted heartbeat shows the end of an unseen rebalance."""
        known = member.generation
        lost = member.awaits_sync and connection.gaps > member.gaps_at_join
        return lost or (known is not None and sent.generation > known)

    def _learn_ports(self, brokers: Iterable[HostPort]) -> None:
        for broker in brokers:
            if 0 < broker.port < 1 << 16:
                self.ports[broker.port] = None
                self.ports.move_to_end(broker.port)
        while len(self.ports) > _PORTS_LIMIT:
            self.ports.popitem(last=False)


def _is_outdated(member: WireMember, sent: MemberRequest) -> bool:
    """Return whether a request was sent in an older generation, or as an earlier member."""
    known = member.generation
    return (known is not None and sent.generation < known) or (
        sent.member_id not in {"", member.identity.member_id}
    )
