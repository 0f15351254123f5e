"""A fault of the decoder's own: it ends the decoding of one connection, and nothing else.

What bytes can do is a `DecodeError`, which the connection takes itself; this is for what nobody
thought of. The fuzz targets call the interpreter without it, so that they see it.
"""

import logging
from collections import Counter

from agent.wire.connection import ConnectionDecoder, DecodedResponse, Event
from agent.wire.members.group_decoder import GroupDecoder
from metrics.model.signals import Signal

_log = logging.getLogger(__name__)


def record_fault(connection: ConnectionDecoder, counts: Counter[str]) -> None:
    """Within an ``except``: say what happened, count it, and decode no more of the connection."""
    _log.exception("decoder_fault", extra={"client_id": connection.client_id})
    counts["decoder_fault"] += 1
    connection.opaque = True


def decode_safely(interpreter: GroupDecoder, event: Event) -> list[Signal]:
    """Return what an event tells; after a fault nothing, and no more is decoded there."""
    connection = (
        event.request.connection if isinstance(event, DecodedResponse) else event.connection
    )
    try:
        return interpreter.decode(event)
    except Exception:  # noqa: BLE001 - what a peer sends must not end what others tell
        record_fault(connection, interpreter.counts)
        return []
