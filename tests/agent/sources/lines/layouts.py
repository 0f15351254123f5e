"""Recorded logs as other layouts write them: what stands behind the message."""

import re
from collections.abc import Sequence
from itertools import cycle, islice

import msgspec
from msgspec.structs import replace

from metrics.model.signals import Signal

_LOGGER = re.compile(rb" \((?:org\.apache\.|aio)?kafka\.[\w.$]+(?::\d+)?\)$", re.MULTILINE)

_BEHIND = (
    b"",
    b" ",
    b" [http-nio (q) #1]",
    b" (o.a.k.c.c.i.ConsumerCoordinator)",
    b" (ConsumerCoordinator.java:1082)",
    b" - ConsumerCoordinator",
    b" {traceId=8c1, spanId=2}",
    b" traceId=8c1 spanId=2",
    b"\tmain",
    b'"',
    b'" thread=main',
    b"\x1b[0;39m",
)
"""What layouts put behind the message, where Kafka's own puts the logger's class."""
BEHIND_SHIFTS = range(0, len(_BEHIND), 4)
_AS_KAFKA = re.compile(
    rb"^\[(?P<day>\S+) (?P<clock>[\d:]+),(?P<ms>\d+)\] (?P<level>\w+) (?P<message>.*?)"
    rb"(?: \((?P<logger>(?:org\.apache\.|aio)?kafka\.[\w.$]+)(?::\d+)?\))?$",
    re.MULTILINE,
)
LAYOUTS = {
    "logfmt": rb'time=\g<day>T\g<clock>.\g<ms>Z msg="\g<message>" logger=\g<logger>',
    "loguru": b"\x1b[32m\\g<day> \\g<clock>.\\g<ms>\x1b[0m | \x1b[1m\\g<message>\x1b[0m",
    "Quarkus": rb"\g<day> \g<clock>,\g<ms> \g<level>  [\g<logger>] (main) \g<message>",
    "rich": rb"[\g<day> \g<clock>.\g<ms>] \g<level>     \g<message>      base.py:123",
}


def as_strimzi(log: bytes) -> bytes:
    """Put the thread behind the class, as `%m (%c) [%t]%n` does."""
    return _LOGGER.sub(rb"\g<0> [data-plane-kafka-request-handler-3]", log)


def with_behind(log: bytes, shift: int) -> bytes:
    """Put something else where the class stands, in each line another thing."""
    behind = islice(cycle(_BEHIND), shift, None)
    return _LOGGER.sub(lambda _: next(behind), log)


def in_layout(log: bytes, name: str) -> bytes:
    """Print a log in Kafka's layout in another one."""
    return _AS_KAFKA.sub(LAYOUTS[name], log)


def assert_same_but_for_the_ends_of_reasons(
    found: Sequence[Signal], wanted: Sequence[Signal]
) -> None:
    """Open ends such as a user's reason may hold what stands behind, nothing else may."""
    assert list(map(_without_reasons, found)) == list(map(_without_reasons, wanted))
    for signal, plain in zip(found, wanted, strict=True):
        for reason, plain_reason in zip(_reasons(signal), _reasons(plain), strict=True):
            assert reason.startswith(plain_reason)


def _reasons(signal: Signal) -> list[str]:
    got = (signal, signal.follow_up, signal.streams_follow_up)
    return [each.reason or "" for each in got if each is not None]


def _without_reasons(signal: Signal) -> Signal:
    follow_ups = {
        name: follow_up and replace(follow_up, reason=None)
        for name in ("follow_up", "streams_follow_up")
        for follow_up in [getattr(signal, name)]
    }
    return msgspec.structs.replace(signal, reason=None, **follow_ups)
