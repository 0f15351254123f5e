"""Recorded logs as other layouts write them: what stands behind the message."""

import re
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from metrics.signals import Signal

_LOGGER = re.compile(rb" \((?:org\.apache\.|aio)?kafka\.[\w.$]+(?::\d+)?\)$", re.MULTILINE)

BEHIND = {
    "nothing": b"",
    "blank": b" ",
    "thread": b" [http-nio (q) #1]",
    "short-logger": b" (o.a.k.c.c.i.ConsumerCoordinator)",
    "file-and-line": b" (ConsumerCoordinator.java:1082)",
    "dash": b" - ConsumerCoordinator",
    "context": b" {traceId=8c1, spanId=2}",
    "pairs": b" traceId=8c1 spanId=2",
    "tab": b"\tmain",
    "quote": b'"',
    "quote-and-pairs": b'" thread=main',
    "colours": b"\x1b[0;39m",
}
"""What layouts put behind the message, where Kafka's own puts the logger's class."""


def as_strimzi(log: bytes) -> bytes:
    """Put the thread behind the class, as `%m (%c) [%t]%n` does."""
    return _LOGGER.sub(rb"\g<0> [data-plane-kafka-request-handler-3]", log)


def with_behind(log: bytes, behind: bytes) -> bytes:
    """Put something else where the class stands."""
    return _LOGGER.sub(lambda _: behind, log)


def assert_same_but_for_the_ends_of_reasons(
    found: Sequence[Signal], wanted: Sequence[Signal]
) -> None:
    """Open ends such as a user's reason may hold what stands behind, nothing else may."""
    assert list(map(_without_reasons, found)) == list(map(_without_reasons, wanted))
    for signal, plain in zip(found, wanted, strict=True):
        for reason, plain_reason in zip(_reasons(signal), _reasons(plain), strict=True):
            assert reason.startswith(plain_reason)


def _reasons(signal: Signal) -> list[str]:
    told = (signal, signal.follow_up, signal.streams_follow_up)
    return [each.reason or "" for each in told if each is not None]


def _without_reasons(signal: Signal) -> Signal:
    follow_ups = {
        name: follow_up and replace(follow_up, reason=None)
        for name in ("follow_up", "streams_follow_up")
        for follow_up in [getattr(signal, name)]
    }
    return msgspec.structs.replace(signal, reason=None, **follow_ups)
