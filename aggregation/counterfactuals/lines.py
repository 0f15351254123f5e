"""Lines to paste for a setting, by the client that they are for. Pure.

A client that lacks a setting has no line: librdkafka has no max.poll.records, Streams has an
assignor of its own, and groups of the new protocol have their session timeout on the broker. Groups
of Streams and of Connect have lines for these alone.

Sources: "Consumer Configs", "Broker Configs" and "Group Configs" of
https://kafka.apache.org/documentation/, librdkafka's CONFIGURATION.md.
"""

import shlex
from collections.abc import Iterable

from aggregation.incidents.settings import (
    INSTANCE_ID,
    SESSION_TIMEOUT,
    ClientKind,
    has_broker_session,
    setting_of,
)

Lines = tuple[tuple[str, str], ...]

STATIC_ID = INSTANCE_ID
SESSION = SESSION_TIMEOUT
POLL_INTERVAL = "max.poll.interval.ms"
POLL_RECORDS = "max.poll.records"
ASSIGNOR = "partition.assignment.strategy"
GROUP_PROTOCOL = "group.protocol"
INITIAL_DELAY = "group.initial.rebalance.delay.ms"
GROUP_ID = "group.id"
LEAVE_ON_CLOSE = "internal.leave.group.on.close"
PROBING_INTERVAL = "probing.rebalance.interval.ms"
PACING = "rollout in fewer steps"

_CLIENTS = {
    ClientKind.CONSUMER: {"Java", "Spring", "Streams", "librdkafka", "broker"},
    ClientKind.STREAMS: {"Streams", "broker"},
    ClientKind.CONNECT: {"Connect", "broker"},
}
_LIBRDKAFKA_NOTE = f"# {POLL_INTERVAL} is at least as long, else no consumer is made\n"
_HOSTNAME_NOTE = "# a pod's name stays in a StatefulSet, not in a Deployment\n"
_STABLE_NAME = "<a name that stays, one for each instance>"
_ASSIGNORS = "org.apache.kafka.clients.consumer."
_COOPERATIVE = f"{_ASSIGNORS}CooperativeStickyAssignor"
_NAMES_OF_JAVA = {
    "range": f"{_ASSIGNORS}RangeAssignor",
    "roundrobin": f"{_ASSIGNORS}RoundRobinAssignor",
    "sticky": f"{_ASSIGNORS}StickyAssignor",
}
"""Classes of Java's assignors by the names that members send."""


def client_lines(
    values: dict[str, str],
    group: str,
    group_type: str | None,
    kind: ClientKind = ClientKind.CONSUMER,
) -> Lines:
    """Return the lines of settings of a consumer, or of its group at the broker."""
    session = setting_of(SESSION, group_type)
    timeout_ms = None if session is None else values.get(session)
    is_new = has_broker_session(group_type)
    shown = {name: value for name, value in values.items() if not (is_new and name == session)}
    found = [
        ("Java", _join(f"{name}={value}" for name, value in shown.items())),
        (
            "Spring",
            _join(
                f"{_HOSTNAME_NOTE}spring.kafka.consumer.properties.{name}=${{HOSTNAME}}"
                if name == STATIC_ID
                else f"spring.kafka.consumer.properties.{name}={value}"
                for name, value in shown.items()
            ),
        ),
        ("Streams", _join(f"consumer.{name}={value}" for name, value in shown.items())),
        (
            "librdkafka",
            _join(
                f"{_LIBRDKAFKA_NOTE}{name}={value}" if name == SESSION else f"{name}={value}"
                for name, value in shown.items()
                if name != POLL_RECORDS
            ),
        ),
        ("Connect", _join(f"{name}={value}" for name, value in shown.items())),
        ("broker", _broker_line(timeout_ms, group, group_type)),
    ]
    kind = ClientKind.STREAMS if group_type == "streams" else kind
    return tuple((client, text) for client, text in found if text and client in _CLIENTS[kind])


def _broker_line(timeout_ms: str | None, group: str, group_type: str | None) -> str:
    if timeout_ms is None:
        return ""
    if not has_broker_session(group_type):
        return f"# group.max.session.timeout.ms is at least {timeout_ms}"
    return (
        f"# group.{group_type}.max.session.timeout.ms is at least {timeout_ms}; its default is "
        "60000\nkafka-configs.sh --bootstrap-server <broker> --alter --entity-type groups "
        f"--entity-name {shlex.quote(group)} "
        f"--add-config {shlex.quote(f'{setting_of(SESSION, group_type)}={timeout_ms}')}"
    )


def static_lines(
    timeout_ms: str, group: str, group_type: str | None, kind: ClientKind = ClientKind.CONSUMER
) -> Lines:
    """Return the lines of static membership."""
    session = setting_of(SESSION, group_type) or SESSION
    return client_lines({STATIC_ID: _STABLE_NAME, session: timeout_ms}, group, group_type, kind)


def stop_first_lines() -> Lines:
    """Return the lines of a Deployment in which each pod stops before its successor starts."""
    strategy = "strategy:\n  rollingUpdate:\n    maxUnavailable: 1\n    maxSurge: 0"
    return (("Kubernetes", f"# a StatefulSet does so by itself; in a Deployment:\n{strategy}"),)


def assignor_lines(now: str | None) -> Lines:
    """Return the lines of the cooperative assignor: two deploys in Java, as in its guide.

    The first one keeps the assignor that members have now, else old and new ones have none in
    common.
    """
    name = "range" if now is None else now
    own = name if "." in name else f"<the class of {name}>"
    first = f"{_COOPERATIVE},{_NAMES_OF_JAVA.get(name, own)}"
    note = "# first deploy with both, second with the first alone"
    return (
        ("Java", f"{note}\n{ASSIGNOR}={first}"),
        ("Spring", f"{note}\nspring.kafka.consumer.properties.{ASSIGNOR}={first}"),
        (
            "librdkafka",
            f"# stop all members first, the two do not mix\n{ASSIGNOR}=cooperative-sticky",
        ),
    )


def protocol_lines(kind: ClientKind) -> Lines:
    """Return the lines of the new protocol: a client refuses those of the classic one with it."""
    line = f"{GROUP_PROTOCOL}={kind}"
    coordinators = f"# Kafka 4.0 or newer: group.coordinator.rebalance.protocols has {kind}"
    if kind is ClientKind.STREAMS:
        return (
            ("Streams", f"# stop all instances first, the two do not mix\n{line}"),
            ("broker", coordinators.replace("4.0", "4.2")),
        )
    gone = f"# without {SESSION}, heartbeat.interval.ms and {ASSIGNOR}"
    return (
        ("Java", f"{gone}\n{line}"),
        ("Spring", f"{gone}\nspring.kafka.consumer.properties.{line}"),
        ("librdkafka", f"{gone}\n{line}"),
        ("broker", coordinators),
    )


def before_protocol(lines: Lines) -> Lines:
    """Return lines for brokers that lack the new protocol."""
    return tuple((f"{client}, brokers before 4.0", text) for client, text in lines)


def instance_lines() -> Lines:
    """Return the lines of an instance id that no two processes share."""
    return client_lines({STATIC_ID: _STABLE_NAME}, "", None)


def group_lines(group: str, programs: Iterable[str]) -> Lines:
    """Return a group for each program, and the commands that copy the offsets."""
    names = [f"{group}-{program}" for program in programs]
    copies = [
        "kafka-consumer-groups.sh --bootstrap-server <broker> --group "
        f"{shlex.quote(name)} --reset-offsets --from-file offsets.csv --execute"
        for name in names
    ]
    export = (
        "kafka-consumer-groups.sh --bootstrap-server <broker> --group "
        f"{shlex.quote(group)} --all-topics --reset-offsets --to-current --export > offsets.csv"
    )
    return (
        ("clients", _join(f"{GROUP_ID}={name}" for name in names)),
        ("broker", _join(["# with all members stopped", export, *copies])),
    )


def leave_lines() -> Lines:
    """Return the line of a leave at a close: Streams of the classic protocol alone has it.

    From Kafka 4.2 on there is no such setting, but an argument.
    """
    call = "CloseOptions.groupMembershipOperation(GroupMembershipOperation.LEAVE_GROUP)"
    old = f"# Kafka 4.1 or older\n{LEAVE_ON_CLOSE}=true"
    new = f"# Kafka 4.2 or newer, in the code: streams.close({call})"
    return (("Streams", f"{old}\n{new}"),)


def probing_lines(interval_ms: str) -> Lines:
    """Return the line of a probing interval."""
    return (("Streams", f"{PROBING_INTERVAL}={interval_ms}"),)


def delay_lines(delay_ms: str) -> Lines:
    """Return the line of the initial delay: brokers alone have it."""
    return (("broker", f"{INITIAL_DELAY}={delay_ms}"),)


def pacing_lines() -> Lines:
    """Return the lines of a Deployment that is rolled out by halves."""
    return (
        ("Kubernetes", "strategy:\n  rollingUpdate:\n    maxUnavailable: 50%\n    maxSurge: 0"),
    )


def _join(lines: Iterable[str]) -> str:
    return "\n".join(lines)
