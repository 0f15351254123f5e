"""The group protocols' error codes, and their meaning for a member.

Source: https://kafka.apache.org/protocol#protocol_error_codes, as kio has it.
"""

from enum import Enum, auto

from agent.wire.codec.kio_import import without_hypothesis
from metrics.model.status import RebalanceStatus

with without_hypothesis():
    from kio.schema.errors import ErrorCode


class ErrorMeaning(Enum):
    """Errors that set no code, or only for a join."""

    RETRIABLE = auto()
    FENCED = auto()
    """Another process has the static member's place: the client dies."""
    FATAL = auto()
    UNKNOWN = auto()
    """Newer than the agent."""


_CODES: dict[int, RebalanceStatus | ErrorMeaning] = {
    ErrorCode.illegal_generation: RebalanceStatus.STALE_MEMBER,
    ErrorCode.unknown_member_id: RebalanceStatus.UNKNOWN_MEMBER,
    ErrorCode.rebalance_in_progress: RebalanceStatus.COORDINATOR_REQUESTED,
    ErrorCode.member_id_required: RebalanceStatus.NEW_MEMBER,
    ErrorCode.fenced_instance_id: ErrorMeaning.FENCED,
    ErrorCode.fenced_member_epoch: RebalanceStatus.STALE_MEMBER,
    ErrorCode.stale_member_epoch: RebalanceStatus.STALE_MEMBER,
}


TOPIC_REFUSED: int = ErrorCode.topic_authorization_failed
REFUSALS = {int(ErrorCode.group_authorization_failed), TOPIC_REFUSED}
"""Errors of a client without the right; a member of the group goes on, for a while at least."""


def interpret_error(error: int) -> RebalanceStatus | ErrorMeaning:
    """Return the code that an error sets, or why it sets none."""
    if error in _CODES:
        return _CODES[error]
    try:
        return ErrorMeaning.RETRIABLE if ErrorCode(error).retriable else ErrorMeaning.FATAL
    except ValueError:
        return ErrorMeaning.UNKNOWN


def describe_error(error: int) -> str:
    """Return an error's name as Kafka writes it, or its number."""
    try:
        return ErrorCode(error).name.upper()
    except ValueError:
        return f"error {error}"
