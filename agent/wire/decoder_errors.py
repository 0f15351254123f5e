"""A fault of the decoder itself: it ends the decoding of one connection, and nothing else.

Odd bytes are a `DecodeError`, and the connection handles it; this is for unforeseen errors. The
fuzz targets call the decoder without this module, so that they see these errors.
"""

import logging
from collections import Counter

from agent.wire.connection import ConnectionDecoder, Event
from agent.wire.members.group_decoder import GroupDecoder
from metrics.model.signals import Signal

_log = logging.getLogger(__name__)


def record_fault(connection: ConnectionDecoder, counts: Counter[str]) -> None:
    """Log and count the current exception, and decode no more of the connection."""
    _log.exception("decoder_fault", extra={"client_id": connection.client_id})
    counts["decoder_fault"] += 1
    connection.close()


def decode_safely(interpreter: GroupDecoder, event: Event) -> list[Signal]:
    """Return an event's signals; after a fault none, and no more is decoded there."""
    try:
        return interpreter.decode(event)
    except Exception:  # noqa: BLE001 - one peer's bytes must not end the decoding of others
        record_fault(event.connection, interpreter.counts)
        return []
