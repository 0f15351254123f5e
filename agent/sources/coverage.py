"""Coverage of each source that reads no logs: the codes that wire, statistics and events can show.

A log's coverage stands in its dialect; a test compares the rows here with the code. The module
imports nothing that needs an extra.
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
    """The codes that sources of these types show for such clients."""

    name: str
    types: tuple[str, ...]
    """Names as in a configuration's `sources`."""
    clients: str
    group_type: str
    codes: Codes


_WIRE = ("capture", "proxy")

OTHERS = (
    SourceCoverage("wire-classic", _WIRE, "clients that give reasons (KIP-800)", "classic", _ALL),
    SourceCoverage(
        "wire-classic-without-reasons",
        _WIRE,
        "Java before 3.2, librdkafka and others that give none",
        "classic",
        _ALL - {RebalanceStatus.DROPPED_GROUP, RebalanceStatus.METADATA_CHANGED},
    ),
    SourceCoverage("wire-consumer", _WIRE, "any", "consumer", _NEW_PROTOCOLS),
    SourceCoverage("wire-share", _WIRE, "any", "share", _NEW_PROTOCOLS),
    SourceCoverage(
        "wire-streams",
        _WIRE,
        "any",
        "streams",
        _NEW_PROTOCOLS | {RebalanceStatus.ASSIGNMENT_PROBING, RebalanceStatus.ENDPOINT_UPDATE},
    ),
    SourceCoverage(
        "librdkafka-statistics",
        ("librdkafka_stats", "http"),
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
    ),
    SourceCoverage(
        "http-events",
        ("http",),
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
    ),
    SourceCoverage("inspection", ("groups",), "brokers", "any", frozenset()),
)
"""Every source but logs and brokers' logs. Inspection compares states: it moves no status."""
