"""Lines as clients print them, and their signals: shared by the tests of log sources."""

from collections.abc import Sequence

from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.dialects.dialect_matcher import Dialects
from agent.sources.lines.parsing.line_parser import LineParser
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from metrics.model.signals import Signal, SignalKind

DIALECTS = choose_dialects("auto")
ARRIVAL_AT = 1_900_000_000.0
FIRST_AT = 1_795_242_824.0
"""2026-11-21 06:33:44 UTC, when the first line of a log is printed; one second a line."""

MEMBER = "Generation{generationId=%d, memberId='c-1', protocol='range'}"
JOINING = "(Re-)joining group"
ASSIGNED = "Adding newly assigned partitions: t-0"
REBALANCING = "Request joining group due to: group is already rebalancing"
CLOSED = (
    "Member c-1 sending LeaveGroup request to coordinator x due to the consumer is being closed"
)


def synced(generation: int) -> str:
    return f"Successfully synced group in generation {MEMBER % generation}"


def says(text: str, client_id: str = "c", group: str = "g", kind: str = "Consumer") -> str:
    return f"[{kind} clientId={client_id}, groupId={group}] {text}"


def thread_says(text: str, thread: str = "s-StreamThread-1") -> str:
    return f"stream-thread [{thread}] {text}"


def log(*messages: str) -> bytes:
    """Return the messages as a log, one second apart."""
    return "".join(
        f"[2026-11-21 06:{33 + (44 + i) // 60}:{(44 + i) % 60:02},000] INFO {message}\n"
        for i, message in enumerate(messages)
    ).encode()


def parser(dialects: Dialects = DIALECTS, cluster: str = "") -> LineParser:
    return create_parser(dialects, ClientInterpreter(stream="s", cluster=cluster), "UTC")


def signals(*messages: str) -> list[Signal]:
    """Return all signals of a log that ends behind the messages."""
    reader = parser()
    return reader.feed(log(*messages), ARRIVAL_AT) + reader.flush()


def got(found: Sequence[Signal]) -> list[str]:
    """Return each signal in a word: its code for a cause, its kind for anything else.

    Reports of assigned partitions are left out: they move no status.
    """
    return [_word(signal) for signal in found if not is_report(signal)]


def is_report(signal: Signal) -> bool:
    """Return whether a signal reports partitions alone."""
    return signal.kind is SignalKind.SEEN and signal.assigned is not None


def _word(signal: Signal) -> str:
    word = str(int(signal.status)) if signal.kind is SignalKind.RAISE else signal.kind.value
    own, layer = signal.follow_up, signal.streams_follow_up
    return word + (f"+{own.status:d}" if own else "") + (f"~{layer.status:d}" if layer else "")
