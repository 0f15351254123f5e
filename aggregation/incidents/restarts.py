"""Restarts, rollouts and crash loops of one group, from departures and returns. Pure.

Source: incidents.md 1a.3, 1a.4 and 2.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregation.incidents.drafts import Draft
from aggregation.incidents.model import DepartureMode, IncidentKind, MemberDeparture
from aggregation.incidents.places import place_key
from aggregation.rebalances.segments import MemberRef, is_inferred_leave

RESTART_S = 600.0
"""A successor within this makes a departure a restart, and restarts a rollout or crash loop."""
LOOP_COUNT = 3

RESTARTS = {IncidentKind.RESTART, IncidentKind.ROLLOUT, IncidentKind.CRASH_LOOP}
_ENDS = {DepartureMode.LEFT, DepartureMode.EXPIRED, DepartureMode.FENCED}
"""Departures of members whose process may have ended: only these make a crash loop."""


class Stop(NamedTuple):
    """Span in which the last members of a group left and none joined. Both are Unix seconds."""

    since: float
    until: float


Merge = Callable[[Draft, Draft], None]
"""Merges two incidents: the first absorbs the other."""
Part = Callable[[Draft, tuple[str, ...]], Draft]
"""Splits an incident, and returns the part of one place; itself if it has no other place."""


@dataclass(slots=True)
class RestartHistory:
    """Departures of a group's processes by place, and the latest rollout and crash loop.

    Its owner merges and splits incidents, and is an argument: a stored method would be a cycle,
    and the whole analysis would be in memory until the next full collection.
    """

    stops: Sequence[Stop] = ()
    """Spans in which its last members left, in order and apart."""
    steps: dict[tuple[str, ...], list[tuple[float, Draft]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Departures by place, for crash loops."""
    gone_places: set[tuple[str, ...]] = field(default_factory=set)
    """Places without an arrival since their last departure: several threads depart together."""
    latest: Draft | None = None
    """The latest restart or rollout."""
    loop: Draft | None = None
    """The latest crash loop: loops that begin within `RESTART_S` of it are merged into it."""

    def add_step(self, departure: MemberDeparture, draft: Draft) -> None:
        """Add a departure, unless the group stops, or another thread of its process has gone."""
        place = place_key(departure.member)
        is_end = departure.how in _ENDS and not is_inferred_leave(draft.reason)
        if departure.how is DepartureMode.LEFT and departure.returned_at is None:
            is_end &= not self._is_stopping(departure.at)
        if place not in self.gone_places and is_end:
            self.steps[place].append((departure.at, draft))
        self.gone_places.add(place)

    def _is_stopping(self, at: float) -> bool:
        number = bisect_right(self.stops, at, key=lambda stop: stop.since) - 1
        return number >= 0 and at <= self.stops[number].until

    def note_arrival(self, member: MemberRef) -> None:
        """Note that a place is occupied again."""
        self.gone_places.discard(place_key(member))

    def forget_step(self, member: MemberRef, at: float) -> None:
        """Forget a departure of a member: its process did not end."""
        place = place_key(member)
        self.steps[place] = [step for step in self.steps[place] if step[0] != at]
        self.gone_places.discard(place)

    def add_restart(self, draft: Draft, member: MemberRef, at: float, merge: Merge) -> None:
        """Raise an incident to a restart, and to a rollout with the one before."""
        if draft.kind is IncidentKind.CRASH_LOOP:
            return  # a rollout beside it goes on
        if draft.kind not in RESTARTS:
            draft.kind = IncidentKind.RESTART
        draft.add_members([member])
        before, self.latest = self.latest, draft
        if before is None or before is draft or before.kind is IncidentKind.CRASH_LOOP:
            self._rise_to_rollout(draft)
            return
        places = {place_key(each) for each in before.members}
        is_near = at <= before.last_step_at + RESTART_S
        is_again = not places.isdisjoint(place_key(each) for each in draft.members)
        if is_near and (before.kind is IncidentKind.ROLLOUT or not is_again):
            merge(before, draft)
            self.latest = before
        self._rise_to_rollout(self.latest)

    def _rise_to_rollout(self, draft: Draft) -> None:
        if draft.kind is not IncidentKind.RESTART:
            return
        back = [
            each.member
            for each in draft.all_departures
            if each.returned_at is not None and each.how is not DepartureMode.DROPPED
        ]
        if len(set(map(place_key, back))) > 1:
            draft.kind = IncidentKind.ROLLOUT
            draft.add_members(back)

    def find_loop(self, member: MemberRef, at: float, merge: Merge, part: Part) -> None:
        """Merge the incidents of one place into a crash loop, from the third departure on."""
        place = place_key(member)
        recent = [(when, draft) for when, draft in self.steps[place] if when >= at - RESTART_S]
        self.steps[place] = recent
        if len({round(when, 3) for when, _ in recent}) < LOOP_COUNT:
            return
        drafts = [
            part(draft, place) if draft.kind is IncidentKind.ROLLOUT else draft
            for draft in dict.fromkeys(draft for _, draft in recent)
            if _is_of_place(draft, place)
        ]
        if not drafts:
            return
        first = drafts[0]
        for other in drafts[1:]:
            merge(first, other)
        if first.kind is not IncidentKind.CRASH_LOOP:
            first.members.clear()  # those that came and went once only are no part of the loop
        first.kind = IncidentKind.CRASH_LOOP
        first.add_members([member])
        before, self.loop = self.loop, first
        if before is not None and at <= before.last_step_at + RESTART_S:
            merge(before, first)
            self.loop = before

    def replace_step(self, place: tuple[str, ...], other: Draft, first: Draft) -> None:
        """Move the departures of one place to the incident that was split off for it."""
        self.steps[place] = [
            (at, first if each is other else each) for at, each in self.steps[place]
        ]

    def replace_draft(self, other: Draft, first: Draft) -> None:
        """Replace an incident by the one that absorbed it."""
        self.latest = first if self.latest is other else self.latest
        self.loop = first if self.loop is other else self.loop
        for place, steps in self.steps.items():
            self.steps[place] = [(at, first if each is other else each) for at, each in steps]


def _is_of_place(draft: Draft, place: tuple[str, ...]) -> bool:
    """Check that a process of a place is a cause of an incident, and did not only depart in it."""
    return place in {place_key(member) for member in draft.members}
