"""Changes worth making: the interface for proposals in a report. Pure.

A function of the type `Propose` gets rows of incidents and returns proposals, the most useful
first. `report.build_report` takes such a function. Page, Markdown and mail show the first three
proposals; JSON and the files ``changes`` have those of all groups.
`propose_changes` is the one of the report command: its rules are `aggregation.counterfactuals`.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

import pyarrow as pa

from aggregation.counterfactuals.best_changes import span_of
from aggregation.counterfactuals.changes import find_changes
from aggregation.counterfactuals.facts import IncidentFacts, facts_of_row
from aggregation.counterfactuals.lines import PACING, STATIC_ID
from aggregation.counterfactuals.sentences import DAY_S, describe_change
from aggregation.spark.report.section import Rows

SHOWN = 3
FACTS = """
SELECT id, cluster, `group`, group_type, client_kind, kind, plan, rebalances,
       unix_micros(started_at) / 1000000D AS started_at,
       unix_micros(ended_at) / 1000000D AS ended_at,
       member_seconds AS member_s, unread_partition_seconds AS unread_s,
       partitions_to_move AS moved, away_partition_seconds AS away_s,
       moved_partition_seconds AS moved_s, partitions_handed_over AS handed_over,
       notice_seconds AS notice_s, poll_wait_seconds AS poll_wait_s,
       group_size, joins_without_poll,
       detail, members,
       exists(members, m -> m.group_instance_id IS NOT NULL) AS is_static,
       transform(departures, d -> named_struct(
           'client_id', d.client_id, 'how', d.how,
           'at', unix_micros(d.at) / 1000000D,
           'returned_at', unix_micros(d.returned_at) / 1000000D)) AS absences
FROM incidents
WHERE $period AND ended_at IS NOT NULL
"""
"""The rows that proposals are made from: incidents that are over. Instants are Unix seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One candidate of a timeout. ``later_s``: how much later members that died are missed."""

    timeout_s: float
    rebalances_avoided: int
    unread_avoided_s: float | None
    later_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One setting to change in one group, with its savings in the period."""

    cluster: str
    group: str
    setting: str
    now: str | None
    proposed: str
    because: str
    price: str
    rebalances_avoided: int
    unread_avoided_s: float | None
    confidence: str
    text: str
    """Its savings in one sentence, the same as in `explain`, pages and alerts."""
    incidents: tuple[str, ...] = ()
    """Ids of the incidents that it rests on."""
    members: tuple[str, ...] = ()
    """Client ids of the members that it rests on."""
    lines: tuple[tuple[str, str], ...] = ()
    """Lines to paste, by the client that they are for."""
    curve: tuple[CurvePoint, ...] = ()
    """Of a timeout: its candidates, by length."""

    @property
    def steps(self) -> Sequence[CurvePoint]:
        """The points of the curve with an outcome other than that of the point before."""

        def outcome(point: CurvePoint) -> tuple[int, float | None, float]:
            return point.rebalances_avoided, point.unread_avoided_s, point.later_s

        return [next(points) for _, points in groupby(self.curve, outcome)]

    @property
    def now_text(self) -> str:
        """The value now as a sentence; empty for a change of no setting."""
        if self.setting == PACING:
            return ""
        if self.setting == STATIC_ID and self.now is None:
            return f"No member has a {STATIC_ID} now."
        return f"{self.setting} is {self.now or 'not known'} now."

    @property
    def name(self) -> str:
        """Its group, with the cluster if that has a name."""
        return "/".join(part for part in (self.cluster, self.group) if part)


Propose = Callable[[Rows, int], Sequence[Proposal]]
"""From the rows of `FACTS`, and the days of their period, to proposals."""


_TEXTS = ("cluster", "group", "setting", "now", "proposed", "because", "price", "confidence")
CHANGES = pa.schema(
    [
        *((name, pa.string()) for name in _TEXTS),
        ("rebalances_avoided", pa.int64()),
        ("unread_avoided_s", pa.float64()),
        *((name, pa.string()) for name in ("text", "incidents", "members", "lines")),
    ]
)
"""Columns of the files ``changes``: ids and members are apart by commas."""


def paste_text(change: Proposal) -> str:
    """Write the lines to paste, each client's under its name."""
    return "\n".join(f"# {client}\n{text}" for client, text in change.lines)


def change_rows(proposals: Sequence[Proposal]) -> Rows:
    """Return proposals as rows of a table."""
    return [
        {name: getattr(each, name) for name in CHANGES.names}
        | {
            "incidents": ", ".join(each.incidents),
            "members": ", ".join(each.members),
            "lines": paste_text(each),
        }
        for each in proposals
    ]


def _rebalances_in(facts: Sequence[IncidentFacts], days: int | None) -> tuple[int, float]:
    rebalances, span = span_of(facts)
    return rebalances, span if days is None else days * DAY_S


def propose_changes(rows: Rows, days: int | None = None) -> list[Proposal]:
    """Return the changes that would have saved most, of all groups.

    Sentences are over ``days``; without them, from a group's first incident to its last.
    """
    groups = defaultdict[tuple[str, str], list[IncidentFacts]](list)
    for facts in map(facts_of_row, rows):
        groups[facts.cluster, facts.group].append(facts)
    return [
        Proposal(
            cluster=each.cluster,
            group=each.group,
            setting=each.setting,
            now=each.now,
            proposed=each.proposed,
            because=each.because,
            price=each.price,
            rebalances_avoided=each.rebalances_avoided,
            unread_avoided_s=each.unread_avoided_s,
            confidence=each.confidence.value,
            text=describe_change(each, *_rebalances_in(groups[each.cluster, each.group], days)),
            incidents=each.incidents,
            members=each.members,
            lines=each.lines,
            curve=tuple(
                CurvePoint(
                    timeout_s=point.timeout_s,
                    rebalances_avoided=point.rebalances,
                    unread_avoided_s=point.unread_s,
                    later_s=point.later_s,
                )
                for point in each.curve
            ),
        )
        for each in find_changes(chain.from_iterable(groups.values()))
    ]
