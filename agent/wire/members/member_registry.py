"""Member identity on the wire, joined over connections and member ids.

Theory of operation. A connection belongs to one client, and a client joins a group once. A member
is found by its member id, else by the connection. Else it is the member with the same client id,
host and group that has lost all connections (it has reconnected, or its process was restarted), or,
in a Streams process, the thread with that name; else it is new. Its origin is the client's end of
its first connection, with a number if others began on it before. A Kafka Streams thread has the
origin of its instance: the process id, or the origin of the instance's other threads.
"""

import re
from collections import Counter, OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from agent.wire.codec.correlation import Correlation
from agent.wire.codec.messages import (
    CoordinatorLookup,
    HostPort,
    LeavingMember,
    MemberRequest,
    SentHeartbeat,
)
from agent.wire.connection import ConnectionDecoder, DecodedRequest, DecodedResponse
from agent.wire.members.member import WireMember
from metrics.model.signals import Member, MemberKey, streams_thread

_SERVERS_LIMIT = 1_000
_CONTEXTS_MAX = 64
"""Requests of one connection's members without a response; a member sends one or two at once."""

FORMER_MAX, _FORMER_OF_ONE_MAX = 20_000, 1_000
"""Origins of former members of all connections that go on, and of one of these."""


class RequestContext(NamedTuple):
    """The sender of a request, and the part of the request that the response needs."""

    member: WireMember
    incarnation: int
    request: MemberRequest | SentHeartbeat | CoordinatorLookup | None
    """None: a JoinGroup."""


_READERS_S = 5.0


@dataclass(slots=True)
class ConnectionState:
    """Members and client software of one connection, and its requests without a response."""

    software: str | None = None
    """The client's name and version in ApiVersions, such as ``apache-kafka-java 4.3.0``."""
    members: dict[str, WireMember] = field(default_factory=dict)
    """The latest one by group."""
    users: dict[WireMember, None] = field(default_factory=dict)
    """All members that have sent on it: several of a group where they share a client (sarama)."""
    added: int = 0
    """Members that have begun on it."""
    former: dict[str, None] = field(default_factory=dict)
    """Origins of members that were found to be others, or forgotten."""
    readers_at: float = -_READERS_S
    """When the readers of topics were listed last (Unix seconds)."""
    contexts: Correlation[RequestContext] = field(
        default_factory=lambda: Correlation(_CONTEXTS_MAX)
    )


@dataclass(slots=True, kw_only=True)
class MemberRegistry:
    """Every member, with its indexes."""

    cluster: str = ""
    """The configured name; without one the Cluster ID of Metadata is taken."""
    limit: int = 20_000
    """Members remembered; the longest silent goes first, and is counted as ``member_evicted``."""
    partitions_max: int = 500_000
    """Partitions of all members together: some 60 MB. A whole cluster has 200,000 as a rule."""
    counts: Counter[str] = field(default_factory=Counter)
    _by_key: OrderedDict[MemberKey, WireMember] = field(default_factory=OrderedDict)
    _by_member_id: dict[tuple[str, str], WireMember] = field(default_factory=dict)
    _by_instance: dict[tuple[str, str], WireMember] = field(default_factory=dict)
    """Static members, by group and `group.instance.id`: the latest one of it."""
    _by_client: dict[tuple[str, str, str], tuple[WireMember, ...]] = field(default_factory=dict)
    """By group, client id (of the Streams instance, for its threads) and host."""
    _clusters: OrderedDict[HostPort, str] = field(default_factory=OrderedDict)
    _states: dict[ConnectionDecoder, ConnectionState] = field(default_factory=dict)
    """Of the connections that have not ended."""
    _partitions: int = 0
    _former_count: int = 0

    def state_of(self, connection: ConnectionDecoder) -> ConnectionState:
        """Return the state of a connection; the first call creates it."""
        state = self._states.get(connection)
        if state is None:
            state = self._states[connection] = ConnectionState()
        return state

    def find_by_id(self, group: str, member_id: str) -> WireMember | None:
        """Return the known member with this id."""
        return self._by_member_id.get((group, member_id))

    def find_static(self, group: str, instance_id: str) -> WireMember | None:
        """Return the known static member of this `group.instance.id`."""
        return self._by_instance.get((group, instance_id))

    def find_on(self, connection: ConnectionDecoder, group: str) -> WireMember | None:
        """Return the member of a group on this connection, if there is one."""
        state = self._states.get(connection)
        return None if state is None else state.members.get(group)

    def list_on(self, connection: ConnectionDecoder) -> list[WireMember]:
        """Return the members of all groups on this connection."""
        state = self._states.get(connection)
        return [] if state is None else list(state.users)

    def list_origins_on(self, connection: ConnectionDecoder) -> list[str]:
        """Return the origins of all members on this connection, and of former ones to a bound."""
        state = self._states.get(connection)
        if state is None:
            return []
        return [*dict.fromkeys([*state.former, *(each.identity.origin for each in state.users)])]

    def find_client(self, connection: ConnectionDecoder, group: str) -> WireMember | None:
        """Return the only member of a group that has a connection's client id and host."""
        client_id = connection.client_id or ""
        candidates = self._by_client.get(_client_key(group, client_id, connection.client.host), ())
        found = [member for member in candidates if member.identity.client_id == client_id]
        return found[0] if len(found) == 1 else None

    def list_readers(
        self, connection: ConnectionDecoder, topics: Collection[str], at: float
    ) -> list[WireMember]:
        """Return the members of a connection's client that read some topics.

        It looks at every member, so once in `_READERS_S` for a connection; else there are none.
        """
        state = self.state_of(connection)
        if at < state.readers_at + _READERS_S:
            return []
        state.readers_at = at
        client_id, host = connection.client_id or "", connection.client.host
        return [
            member
            for member in self._by_key.values()
            if member.identity.client_id == client_id
            and any(each.client.host == host for each in member.connections)
            and member.reads(topics)
        ]

    def take_context(self, response: DecodedResponse) -> RequestContext | None:
        """Return the context of a response's request, and forget it."""
        state = self._states.get(response.connection)
        return None if state is None else state.contexts.take(response.correlation_id)

    def bound_partitions(self, member: WireMember) -> None:
        """Count a member's partitions; beyond the limit of all members its own are forgotten."""
        size = member.count_partitions()
        self._partitions += size - member.counted_partitions
        member.counted_partitions = size
        if size and self._partitions > self.partitions_max:
            member.forget_partitions()
            self._partitions -= size
            member.counted_partitions = 0
            self.counts["partitions_forgotten"] += 1

    def learn_cluster(self, server: HostPort, cluster_id: str) -> None:
        """Remember a broker's cluster."""
        self._clusters[server] = cluster_id
        if len(self._clusters) > _SERVERS_LIMIT:
            self._clusters.popitem(last=False)

    def resolve(
        self,
        request: DecodedRequest,
        group: str,
        member_id: str,
        instance_id: str | None,
        process_id: str | None = None,
    ) -> WireMember:
        """Return the sender of a group's request: found, or new."""
        connection = request.connection
        member = self._find(connection, group, member_id, instance_id, process_id)
        if member is None:
            member = self._add(connection, group, instance_id, process_id)
        self._by_key.move_to_end(member.identity.key)
        self._attach(member, connection)
        if member.process_id is None:
            member.process_id = process_id
        member.learn(software=self.state_of(connection).software)
        return self.assign_id(member, member_id)

    def assign_id(self, member: WireMember, member_id: str | None) -> WireMember:
        """Give a member its id; return the one that has it already, if there is one."""
        if not member_id or member_id == member.identity.member_id:
            return member
        group = member.identity.group
        other = self._by_member_id.get((group, member_id))
        if other is not None and other.identity.client_id == member.identity.client_id:
            self._merge(member, other)
            return other
        self._release_id(member)
        self._by_member_id[group, member_id] = member
        member.learn(member_id=member_id)
        member.generation = None
        return member

    def list_connected_origins(self) -> set[str]:
        """Return the origins of all members that have a connection."""
        return {each.identity.origin for each in self._by_key.values() if each.connections}

    def disconnect(self, connection: ConnectionDecoder) -> None:
        """Take an ended connection from its members."""
        state = self._states.pop(connection, ConnectionState())
        self._former_count -= len(state.former)
        for member in state.users:
            member.connections.pop(connection, None)
            if member.has_left and not member.connections:
                member.reset()

    def _find(
        self,
        connection: ConnectionDecoder,
        group: str,
        member_id: str,
        instance_id: str | None,
        process_id: str | None,
    ) -> WireMember | None:
        client_id = connection.client_id or ""
        found = self._by_member_id.get((group, member_id)) if member_id else None
        if found is not None and found.identity.client_id == client_id:
            return found
        found = self.find_on(connection, group)
        if found is not None and found.identity.group_instance_id == instance_id:
            return found
        candidates = self._by_client.get(_client_key(group, client_id, connection.client.host), ())
        names = client_id, instance_id
        alike = [
            c for c in candidates if names == (c.identity.client_id, c.identity.group_instance_id)
        ]
        are_several = sum(not member.connections for member in alike) > 1
        for member in reversed(alike):
            is_restart = not member.connections and not are_several
            if is_restart or _is_of_process(member, process_id):
                self._detach(member)
                member.reset()
                return member
        return None

    def _detach(self, member: WireMember) -> None:
        """Take connections that have not ended yet from a member, with their open requests."""
        if member.connections:
            member.incarnation += 1
        self._leave_connections(member)
        member.connections = {}

    def _note_former(self, state: ConnectionState, origin: str) -> None:
        is_full = self._former_count >= FORMER_MAX or len(state.former) >= _FORMER_OF_ONE_MAX
        if origin not in state.former and not is_full:
            state.former[origin] = None
            self._former_count += 1

    def _attach(self, member: WireMember, connection: ConnectionDecoder) -> None:
        state = self.state_of(connection)
        state.members[member.identity.group] = member
        state.users[member] = None
        member.connections[connection] = None

    def _leave_connections(self, member: WireMember) -> None:
        for connection in member.connections:
            state = self.state_of(connection)
            state.users.pop(member, None)
            self._note_former(state, member.identity.origin)
            if state.members.get(member.identity.group) is member:
                del state.members[member.identity.group]

    def _add(
        self,
        connection: ConnectionDecoder,
        group: str,
        instance_id: str | None,
        process_id: str | None,
    ) -> WireMember:
        host, client_id = connection.client.host, connection.client_id or ""
        client = _client_key(group, client_id, host)
        identity = Member(
            cluster=self._cluster_of(connection.server),
            group=group,
            client_id=client_id,
            origin=self._choose_origin(connection, self._by_client.get(client, ()), process_id),
            group_instance_id=instance_id,
            host=host,
        )
        if instance_id is not None and identity.key in self._by_key:  # static: wherever it runs
            return self._by_key[identity.key]
        while identity.key in self._by_key:  # the same port again
            identity = replace(identity, origin=f"{identity.origin}+")
        member = WireMember(identity=identity, process_id=process_id)
        self._by_key[identity.key] = member
        if instance_id is not None:
            self._by_instance[group, instance_id] = member
        self._by_client[client] = (*self._by_client.get(client, ()), member)
        if len(self._by_key) > self.limit:
            self._remove(next(iter(self._by_key.values())))
            self.counts["member_evicted"] += 1
        return member

    def identify_stranger(
        self, connection: ConnectionDecoder, group: str, leaver: LeavingMember
    ) -> Member | None:
        """Return a member that another client removes and that was never seen.

        Its client id is that of its member id, "<client id>-<UUID>". None: it may itself leave.
        """
        match = _MEMBER_ID.fullmatch(leaver.member_id)
        client_id = match[1] if match else ""
        is_named = match is not None and client_id != connection.client_id
        if not is_named and (leaver.member_id or leaver.instance_id is None):
            return None
        return Member(
            cluster=self._cluster_of(connection.server),
            group=group,
            client_id=client_id,
            origin=leaver.member_id or leaver.instance_id or "",
            group_instance_id=leaver.instance_id,
            member_id=leaver.member_id or None,
        )

    def _choose_origin(
        self,
        connection: ConnectionDecoder,
        candidates: tuple[WireMember, ...],
        process_id: str | None,
    ) -> str:
        if streams_thread(connection.client_id or ""):
            for thread in candidates:
                if process_id is None or thread.process_id in {None, process_id}:
                    return thread.identity.origin
            if candidates and not any(thread.connections for thread in candidates):
                return candidates[-1].identity.origin  # the process has started again
            if process_id is not None:
                return process_id
        # one of its own: a connection that several members used may end for one of them alone
        origin = f"{connection.client.host}:{connection.client.port}"
        state = self.state_of(connection)
        state.added += 1
        return origin if state.added == 1 else f"{origin}+{state.added}"

    def _cluster_of(self, server: HostPort) -> str:
        if self.cluster:
            return self.cluster
        known = set(self._clusters.values())
        return self._clusters.get(server) or (known.pop() if len(known) == 1 else "")

    def _merge(self, member: WireMember, other: WireMember) -> None:
        self._remove(member)
        member.merged_into = other
        for connection in member.connections:
            self._attach(other, connection)

    def _release_id(self, member: WireMember) -> None:
        name = (member.identity.group, member.identity.member_id or "")
        if self._by_member_id.get(name) is member:
            del self._by_member_id[name]

    def _remove(self, member: WireMember) -> None:
        """Drop a member; its open requests become void."""
        identity = member.identity
        member.incarnation += 1
        self._partitions -= member.counted_partitions
        self._leave_connections(member)
        del self._by_key[identity.key]
        self._release_id(member)
        instance = (identity.group, identity.group_instance_id or "")
        if self._by_instance.get(instance) is member:
            del self._by_instance[instance]
        client = _client_key(identity.group, identity.client_id, identity.host)
        candidates = tuple(each for each in self._by_client.pop(client) if each is not member)
        if candidates:
            self._by_client[client] = candidates


def _is_of_process(thread: WireMember, process_id: str | None) -> bool:
    """Return whether a Streams thread is of this process: names are unique within a process."""
    return process_id is not None and thread.process_id == process_id


_MEMBER_ID = re.compile(r"(.+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _client_key(group: str, client_id: str, host: str) -> tuple[str, str, str]:
    thread = streams_thread(client_id)
    return group, client_id if thread is None else thread.instance, host
