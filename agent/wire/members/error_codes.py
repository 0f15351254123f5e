"""What the group protocols' error codes mean for a member.

Source: https://kafka.apache.org/protocol#protocol_error_codes, as kio has it.
"""

from enum import Enum, auto

from agent.wire.codec.kio_import import without_hypothesis
from metrics.model.status import RebalanceStatus

with without_hypothesis():
    from kio.schema.errors import ErrorCode


class Meaning(Enum):
    """Errors that set no code, or only for a join."""

    RETRIABLE = auto()
    FENCED = auto()
    """Another process has the static member's place: the client dies."""
    FATAL = auto()
    UNKNOWN = auto()
    """Newer than we are."""


_CODES: dict[int, RebalanceStatus | Meaning] = {
    ErrorCode.illegal_generation: RebalanceStatus.STALE_MEMBER,
    ErrorCode.unknown_member_id: RebalanceStatus.UNKNOWN_MEMBER,
    ErrorCode.rebalance_in_progress: RebalanceStatus.COORDINATOR_REQUESTED,
    ErrorCode.member_id_required: RebalanceStatus.NEW_MEMBER,
    ErrorCode.fenced_instance_id: Meaning.FENCED,
    ErrorCode.fenced_member_epoch: RebalanceStatus.STALE_MEMBER,
    ErrorCode.stale_member_epoch: RebalanceStatus.STALE_MEMBER,
}


def meaning(error: int) -> RebalanceStatus | Meaning:
    """Return the code that an error sets, or why it sets none."""
    if error in _CODES:
        return _CODES[error]
    try:
        return Meaning.RETRIABLE if ErrorCode(error).retriable else Meaning.FATAL
    except ValueError:
        return Meaning.UNKNOWN


def name(error: int) -> str:
    """Return an error's name as Kafka writes it, or its number."""
    try:
        return ErrorCode(error).name.upper()
    except ValueError:
        return f"error {error}"
