"""Lines to paste for a setting, by the client that they are for. Pure.

A client that lacks a setting has no line: librdkafka has no max.poll.records, Streams has an
assignor of its own, and groups of the new protocol have their session timeout on the broker.

Sources: "Consumer Configs", "Broker Configs" and "Group Configs" of
https://kafka.apache.org/documentation/, librdkafka's CONFIGURATION.md.
"""

import shlex
from collections.abc import Iterable

Lines = tuple[tuple[str, str], ...]

STATIC_ID = "group.instance.id"
SESSION = "session.timeout.ms"
POLL_INTERVAL = "max.poll.interval.ms"
POLL_RECORDS = "max.poll.records"
ASSIGNOR = "partition.assignment.strategy"
INITIAL_DELAY = "group.initial.rebalance.delay.ms"
PACING = "rollout in fewer steps"

_STABLE_NAME = "<a name that stays, one for each instance>"
_COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"


def client_lines(values: dict[str, str], group: str, group_type: str | None) -> Lines:
    """Return the lines of settings of a consumer."""
    is_new = group_type == "consumer"
    shown = {name: value for name, value in values.items() if not (is_new and name == SESSION)}
    found = [
        ("Java", _join(f"{name}={value}" for name, value in shown.items())),
        (
            "Spring",
            _join(
                f"spring.kafka.consumer.properties.{name}="
                f"{'${HOSTNAME}' if name == STATIC_ID else value}"
                for name, value in shown.items()
            ),
        ),
        ("Streams", _join(f"consumer.{name}={value}" for name, value in shown.items())),
        (
            "librdkafka",
            _join(f"{name}={value}" for name, value in shown.items() if name != POLL_RECORDS),
        ),
        ("broker", _broker_line(values.get(SESSION), group, is_new=is_new)),
    ]
    return tuple((client, text) for client, text in found if text)


def _broker_line(timeout_ms: str | None, group: str, *, is_new: bool) -> str:
    if timeout_ms is None:
        return ""
    if is_new:
        return (
            "kafka-configs.sh --bootstrap-server <broker> --alter --entity-type groups "
            f"--entity-name {shlex.quote(group)} "
            f"--add-config consumer.session.timeout.ms={timeout_ms}"
        )
    return f"# group.max.session.timeout.ms is at least {timeout_ms}"


def static_lines(timeout_ms: str, group: str, group_type: str | None) -> Lines:
    """Return the lines of static membership."""
    return client_lines({STATIC_ID: _STABLE_NAME, SESSION: timeout_ms}, group, group_type)


def assignor_lines() -> Lines:
    """Return the lines of the cooperative assignor: two deploys in Java, as its guide says."""
    first = f"{_COOPERATIVE},org.apache.kafka.clients.consumer.RangeAssignor"
    note = "# first deploy with both, second with the first alone"
    return (
        ("Java", f"{note}\n{ASSIGNOR}={first}"),
        ("Spring", f"{note}\nspring.kafka.consumer.properties.{ASSIGNOR}={first}"),
        (
            "librdkafka",
            f"# stop all members first, the two do not mix\n{ASSIGNOR}=cooperative-sticky",
        ),
    )


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
