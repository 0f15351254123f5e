"""Traits of each kind of source: one row per `SourceKind`, the one place of policy by source.

A member that several sources report needs rules: the labels and reasons to show, the end that is
final, the differences of clocks that are tolerated. A new kind of source is one row here;
`tests/metrics/tracking/test_source_traits.py` fails without it.
"""

from typing import NamedTuple

from metrics.model.signals import SourceKind


class SourceTraits(NamedTuple):
    """Properties of one kind of source."""

    priority: int
    """The lowest wins: its labels and reasons are shown, and an ambiguous leave waits for it."""
    shows_follow_ups: bool = False
    """It reports the follow-ups that an assignment requires (10 to 13): its end is final."""
    clock_slack_s: float = 0.0
    """Maximum error of its event times: statistics are sampled, not logged."""
    is_broker: bool = False
    """It may know a member by member id or instance id only, and sees no cause inside a client."""
    sees_admin_requests: bool = False
    """It reports an admin's LeaveGroup, with the admin's reason."""
    notes_gaps: bool = False
    """Its notes are gaps in a client's reports: the client may not have polled."""
    asks_coordinators: bool = False
    """It describes groups by polls: its address of a member is the coordinator's."""
    ends_with_process: bool = False
    """It ends soon after its client's process."""
    sees_protocol: bool = False
    """It sees a member's requests, so its group type is certain; a log's texts may be of any."""
    outlives_process: bool = False
    """It is there when its client's process has long ended: a file."""
    reports_often: bool = False
    """It reports each member within minutes, also a quiet one."""


TRAITS: dict[SourceKind, SourceTraits] = {
    # the client's own text, in full
    SourceKind.LOGS: SourceTraits(0, shows_follow_ups=True, outlives_process=True),
    SourceKind.HTTP: SourceTraits(1),
    SourceKind.STATS: SourceTraits(2, clock_slack_s=10.0, notes_gaps=True, reports_often=True),
    # the client's reason in short, or the coordinator's error
    SourceKind.WIRE: SourceTraits(
        3,
        shows_follow_ups=True,
        sees_admin_requests=True,
        sees_protocol=True,
        ends_with_process=True,
        reports_often=True,
    ),
    SourceKind.BROKER_LOG: SourceTraits(4, is_broker=True, sees_admin_requests=True),
    SourceKind.ADMIN: SourceTraits(5, asks_coordinators=True),
}

# A sample's ``source`` is text: members of these sets compare equal to it.
BROKER_SOURCES = frozenset(kind for kind, traits in TRAITS.items() if traits.is_broker)
"""A failure that they report is the removal of a member."""
ADMIN_SOURCES = frozenset(kind for kind, traits in TRAITS.items() if traits.sees_admin_requests)
"""Their notes have an admin's reason for the removal of a member."""
FILE_SOURCES = frozenset(kind for kind, traits in TRAITS.items() if traits.outlives_process)
"""Their times are those of the client's own clock."""
PROTOCOL_SOURCES = frozenset(kind for kind, traits in TRAITS.items() if traits.sees_protocol)
"""They show each request of a member at its time."""
GAP_SOURCES = frozenset(kind for kind, traits in TRAITS.items() if traits.notes_gaps)
"""Their notes are gaps in a client's reports."""
POLL_SOURCES = frozenset(kind for kind, traits in TRAITS.items() if traits.asks_coordinators)
"""They show a member's address, not the host that its own sources name."""
