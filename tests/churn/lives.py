"""A million short lives, as each source has them: bytes in, signals out.

Every client has an id of its own and one of 10,000 groups; every second one leaves, the others
fall silent. Lives follow each other by `STEP_S` of recorded time.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from agent.sources.broker_logs.coordinator_interpreter import CoordinatorInterpreter
from agent.sources.broker_logs.source import create_broker_dialects
from agent.sources.http_events.events import build_signal, read_events
from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.parsing.line_parser import LineParser
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from agent.sources.statistics.interpreter import StatisticsInterpreter
from agent.sources.statistics.line_parser import StatsParser
from agent.wire.codec.messages import HostPort
from agent.wire.connection import ConnectionClosed, ConnectionDecoder
from agent.wire.members.disconnects import DisconnectTracker
from agent.wire.members.group_decoder import GroupDecoder as WireInterpreter
from metrics.model.signals import Signal
from tests.agent.wire.frames import (
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
    answer,
    assignment,
    request,
    subscription,
)

GROUPS = 10_000
START_AT = 1_800_000_000.0
STEP_S = 0.001
_PER_PROCESS = 100
"""Clients that share a statistics stream, as those of one process do."""
_SWEEP = 250
"""Lives between two looks at which connections have gone for good."""

Life = tuple[float, Sequence[Signal]]
"""When it ends, in Unix seconds, and what was told of it."""
Detach = Callable[[str, float], None]
Counts = Counter[str]
"""Takes ``member_evicted``: what the source's own part has forgotten at its limits."""

_LOG_LINES = (
    "Request joining group due to: need to re-join with the given member-id: {id}-7d",
    (
        "Successfully synced group in generation Generation{{generationId=1, memberId='{id}-7d',"
        " protocol='range'}}"
    ),
    "Adding newly assigned partitions: t-0",
    (
        "Member {id}-7d sending LeaveGroup request to coordinator localhost:9092 (id: 1 rack: null)"
        " due to the consumer is being closed"
    ),
)
_BROKER_LINES = (
    (
        "Dynamic member with unknown member id joins group {group} in Empty state. Created a new"
        " member id {id}-{uuid} and requesting the member to rejoin with this id."
    ),
    (
        "Preparing to rebalance group {group} in state PreparingRebalance with old generation 0"
        " (reason: Adding new member {id}-{uuid} with group instance id null; client reason: need"
        " to re-join with the given member-id: {id}-{uuid})."
    ),
    "Stabilized group {group} generation 1 with 1 members.",
    "Member {id}-{uuid} in group {group} has failed, removing it from the group.",
)
_NAME, _GROUP = b"c~~~~~~~", b"g~~~~~"
"""As long as every name, so that a frame's lengths hold."""
_UUID = "a137c07c-5235-48ef-a1b3-7d7315263664"


def _names(number: int) -> tuple[str, str]:
    return f"c{number:07}", f"g{number % GROUPS:05}"


def _end(number: int) -> int:
    """Return how many of a life's lines there are: every second one has no last words."""
    return 4 if number % 2 else 3


def logs(count: int, _detach: Detach, counts: Counts) -> Iterator[Life]:
    """Java clients in one log."""
    parser = create_parser(
        choose_dialects("auto"), ClientInterpreter(stream="/app.log", host="h"), "UTC"
    )
    for number in range(count):
        name, group = _names(number)
        at = START_AT + number * STEP_S
        text = "".join(
            f"[{_stamp(at)}] INFO [Consumer clientId={name}, groupId={group}]"
            f" {line.format(id=name)} (org.apache.kafka.clients.consumer.internals.X)\n"
            for line in _LOG_LINES[: _end(number)]
        )
        yield at, parser.feed(text.encode(), at)
        counts["member_evicted"] = parser.eviction_count


def broker_logs(count: int, detach: Detach, counts: Counts) -> Iterator[Life]:
    """The log of one coordinator."""
    parser = LineParser(create_broker_dialects(), CoordinatorInterpreter("", detach), "UTC")
    for number in range(count):
        name, group = _names(number)
        at = START_AT + number * STEP_S
        text = "".join(
            f"[{_stamp(at)}] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=2]"
            f" {line.format(id=name, group=group, uuid=_UUID)}"
            " (org.apache.kafka.coordinator.group.GroupMetadataManager)\n"
            for line in _BROKER_LINES[: _end(number)]
        )
        yield at, parser.feed(text.encode(), at)
        counts["member_evicted"] = parser.eviction_count


def wire(count: int, detach: Detach, counts: Counts) -> Iterator[Life]:
    """A connection for each client; its frames are one life's, with the names replaced."""
    frames, interpreter = _frames(), WireInterpreter(counts=counts)
    departures = DisconnectTracker(interpreter.registry)
    for number in range(count):
        name, group = _names(number)
        at = START_AT + number * STEP_S
        link = ConnectionDecoder(
            client=HostPort("10.0.0.1", 1024 + number % 60_000),
            server=HostPort("10.0.0.9", 9092),
            counts=interpreter.counts,
            in_step=True,
        )
        out: list[Signal] = []
        for by_client, frame in frames[: None if number % 2 else -1]:
            data = frame.replace(_NAME, name.encode()).replace(_GROUP, group.encode())
            events = link.feed_client(data, at) if by_client else link.feed_broker(data, at)
            out += [signal for event in events for signal in interpreter.decode(event)]
        yield at, out
        closed = ConnectionClosed(link, at, by_client=True)
        departures.record(closed)
        interpreter.decode(closed)
        for ended in departures.take_expired(at) if number % _SWEEP == 0 else ():
            detach(ended.name, at)


def _frames() -> list[tuple[bool, bytes]]:
    """Return the frames of a short-lived member with their senders: a join, its sync, a leave."""
    member_id, group = f"{_NAME.decode()}-7d", _GROUP.decode()
    each = {"name": "range", "metadata": subscription(["t"], None, b"")}
    joins = {"group_id": group, "protocol_type": "consumer", "protocols": (each,), "reason": None}
    members = ({"member_id": member_id},)
    name = _NAME.decode()
    ours = {"member_id": member_id, "generation_id": 1}
    return [
        (True, request(JOIN_GROUP, 9, 1, name, member_id="", **joins)),
        (False, answer(JOIN_GROUP, 9, 1, error_code=79, member_id=member_id)),
        (True, request(JOIN_GROUP, 9, 2, name, member_id=member_id, **joins)),
        (False, answer(JOIN_GROUP, 9, 2, error_code=0, protocol_name="range", **ours)),
        (True, request(SYNC_GROUP, 5, 3, name, group_id=group, **ours)),
        (False, answer(SYNC_GROUP, 5, 3, error_code=0, assignment=assignment({"t": [0]}, b""))),
        (True, request(LEAVE_GROUP, 5, 4, name, group_id=group, members=members)),
    ]


def statistics(count: int, detach: Detach, _counts: Counts) -> Iterator[Life]:
    """librdkafka's statistics: two looks at each client."""
    for number in range(count):
        if number % _PER_PROCESS == 0:
            view = StatisticsInterpreter(stream=f"stats:{number}")
            parser = StatsParser(view)
        name, group = _names(number)
        at = START_AT + number * STEP_S
        out: list[Signal] = []
        for look, state in enumerate(("wait-join", "steady")):
            cgrp = {"join_state": state, "rebalance_age": 10, "rebalance_cnt": look}
            stats = {
                "name": f"{name}#consumer-1",
                "client_id": name,
                "group_id": group,
                "ts": int(number * STEP_S * 1e6) + look * 500_000,
                "time": int(at),
                "age": 1_000_000 + look * 500_000,
                "cgrp": cgrp,
            }
            out += parser.feed(json.dumps(stats).encode() + b"\n", at)
        yield at, out
        if number % _PER_PROCESS == _PER_PROCESS - 1:
            view.end()
            for gone in view.departed_origins:
                detach(gone, at)


def http(count: int, _detach: Detach, _counts: Counts) -> Iterator[Life]:
    """Events that processes post."""
    kinds = (
        {"event": "error", "code": "REBALANCE_IN_PROGRESS"},
        {"event": "assigned"},
        {"event": "closed"},
    )
    for number in range(count):
        name, group = _names(number)
        at = START_AT + number * STEP_S
        body = b"\n".join(
            json.dumps(kind | {"group": group, "client_id": name, "process": name}).encode()
            for kind in kinds[: _end(number) - 1]
        )
        yield (
            at,
            [
                build_signal(event, sender="h", cluster="", arrival_at=at)
                for event in read_events(body, at)
            ],
        )


def _stamp(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S,%f}"[:-3]


SOURCES = {each.__name__: each for each in (logs, broker_logs, wire, statistics, http)}
