"""Coverage of the sources that read no logs: the codes that wire, statistics and events can show.

A log's coverage stands in its dialect; a test compares the rows here with the code. Each source
type's registry row lists its own. The module imports nothing that needs an extra.
"""

from typing import NamedTuple

from metrics.model.status import RebalanceStatus

Codes = frozenset[RebalanceStatus]

_ALL: Codes = frozenset(RebalanceStatus) - {RebalanceStatus.NONE}
_NEW_PROTOCOLS: Codes = frozenset(
    {
        RebalanceStatus.COORDINATOR_REQUESTED,
        RebalanceStatus.NEW_MEMBER,
        RebalanceStatus.UNKNOWN_MEMBER,
        RebalanceStatus.STALE_MEMBER,
        RebalanceStatus.USER_REQUESTED,
        RebalanceStatus.SUBSCRIPTION_CHANGED,
        RebalanceStatus.REVOCATION_NEEDED,
    }
)


class SourceCoverage(NamedTuple):
    """The codes that a source shows for such clients."""

    name: str
    clients: str
    group_type: str
    codes: Codes


WIRE = (
    SourceCoverage("wire-classic", "clients that give reasons (KIP-800)", "classic", _ALL),
    SourceCoverage(
        "wire-classic-without-reasons",
        "Java before 3.2, librdkafka and others that give none",
        "classic",
        _ALL - {RebalanceStatus.DROPPED_GROUP, RebalanceStatus.METADATA_CHANGED},
    ),
    SourceCoverage("wire-consumer", "any", "consumer", _NEW_PROTOCOLS),
    SourceCoverage("wire-share", "any", "share", _NEW_PROTOCOLS),
    SourceCoverage(
        "wire-streams",
        "any",
        "streams",
        _NEW_PROTOCOLS | {RebalanceStatus.ASSIGNMENT_PROBING, RebalanceStatus.ENDPOINT_UPDATE},
    ),
)
LIBRDKAFKA_STATISTICS = SourceCoverage(
    "librdkafka-statistics",
    "librdkafka",
    "any",
    frozenset(
        {
            RebalanceStatus.COORDINATOR_REQUESTED,
            RebalanceStatus.UNKNOWN_MEMBER,
            RebalanceStatus.STALE_MEMBER,
            RebalanceStatus.DROPPED_GROUP,
        }
    ),
)
HTTP_EVENTS = SourceCoverage(
    "http-events",
    "processes that post",
    "any",
    frozenset(
        {
            RebalanceStatus.COORDINATOR_REQUESTED,
            RebalanceStatus.NEW_MEMBER,
            RebalanceStatus.UNKNOWN_MEMBER,
            RebalanceStatus.STALE_MEMBER,
            RebalanceStatus.DROPPED_GROUP,
            RebalanceStatus.USER_REQUESTED,
            RebalanceStatus.REVOCATION_NEEDED,
        }
    ),
)
INSPECTION = SourceCoverage("inspection", "brokers", "any", frozenset())
"""Inspection compares states: it moves no status."""
