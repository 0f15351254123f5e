"""One member as one agent sees it: its row in the fleet, moved by that agent's records."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import NamedTuple

from aggregation.rebalances.segments import is_unexplained
from aggregation.rebalances.unconfirmed import is_confirmation, shows_validity
from metrics.model.sample import Outcome, Sample, SampleKind, Scope
from metrics.model.status import RebalanceStatus
from metrics.model.transition import PeakWindow, add_to_window
from metrics.tracking.source_traits import BROKER_SOURCES, FILE_SOURCES

NONE = RebalanceStatus.NONE
_KEPT_IDS = 4
"""Member ids of a row: one source may still name the one before."""

_OF_PROTOCOL = {"assignor", "assignors"}
_ATTRIBUTES = {"software", *_OF_PROTOCOL}
"""Fields of records of kind `change` that a member's row shows. The leader is none: only the new
one records it, so the others' rows would show the one before.
"""
_ATTRIBUTE_CHARS = 255
"""As long as a reason; a client's names are shorter."""
SAMPLED_S = 20.0
"""An agent samples a quiet member every 15 s."""
_KEPT_ENDS = 4
"""Ended episodes of a row: an agent that reports late still opens them."""
_MAX_OPEN = 256
"""Open episodes of a row: many members may share it, and an agent may end none."""


class FleetMemberKey(NamedTuple):
    """A member as one agent sees it."""

    spool: str
    cluster: str
    group: str
    scope: Scope
    client_id: str
    group_instance_id: str
    host: str


class OpenEpisode(NamedTuple):
    """An episode under way. ``since_at`` is Unix seconds."""

    status: RebalanceStatus
    since_at: float
    reason: str | None
    generation: int | None = None
    """That of its last record."""


@dataclass(slots=True, kw_only=True)
class FleetMember:
    """One member's state; instants are Unix seconds of its agent's clock."""

    app: str
    group_type: str
    member_id: str | None = None
    generation: int | None = None
    open: dict[str, OpenEpisode] = field(default_factory=dict)
    steps: PeakWindow = ()
    since_at: float = 0.0
    left_at: float | None = None
    known: bool = True
    source: str = ""
    """That of its last record."""
    ids: tuple[str, ...] = ()
    """Its last member ids, the latest first."""
    active_at: float = 0.0
    """Time of its last sign of membership: a cause, a join or an assignment."""
    active_heard: float = 0.0
    """The hub's time of that record's arrival."""
    left_heard: float = 0.0
    """The same of its leave."""
    seen_at: float | None = None
    """Time of its last record; None: of an earlier release's state."""
    first_at: float | None = None
    """Time of its first record."""
    removed: OpenEpisode | None = None
    """The last status of a member that a broker has removed since, until it joins again."""
    reason: str | None = None
    """That of its last end; None: the end needed none."""
    ended: tuple[str, ...] = ()
    """Its last ended episodes, the latest first. Other agents may still report them as open."""
    confirmed_at: float = 0.0
    """Time of its last record that confirms a status."""
    lost_at: float | None = None
    """Time at which its agent lost a status that nothing had confirmed; None: it is known again."""
    lost_status: OpenEpisode | None = None
    """That status, by its last confirmation."""
    attributes: dict[str, str] = field(default_factory=dict)
    """Last values of its `_ATTRIBUTES`."""
    synced_at: float = 0.0
    synced_in: int | None = None
    """Generation of its last assignment, at ``synced_at``."""

    @property
    def highest(self) -> OpenEpisode:
        """The open episode with the highest status, the latest of equal ones."""
        none = OpenEpisode(NONE, self.since_at, self.reason)
        return max(self.open.values(), default=none, key=_rank)  # a reason may be None


def _rank(episode: OpenEpisode) -> tuple[RebalanceStatus, float, str]:
    return episode.status, episode.since_at, episode.reason or ""


def apply_record(row: FleetMember, record: Sample, at: float, heard_at: float) -> bool:
    """Apply a record of time ``at`` that arrives at ``heard_at``, by the hub's clock.

    Returns whether the row's name may have changed; without a member id time may change it.
    """
    before = row.source, row.ids
    left_at, active_at = row.left_at, row.active_at
    if is_confirmation(record):
        row.confirmed_at, row.lost_at, row.lost_status = at, None, None
    _apply(row, record, at)
    if row.active_at != active_at:
        row.active_heard = heard_at
    if row.left_at != left_at:
        row.left_heard = heard_at
    is_due = record.kind is SampleKind.SAMPLE and not row.ids
    return is_due or before != (row.source, row.ids)


def _apply(row: FleetMember, record: Sample, at: float) -> None:
    _note_attribute(row, record)
    row.app, row.group_type = record.app, record.group_type
    row.member_id = record.member_id or row.member_id
    row.generation = record.generation if record.generation is not None else row.generation
    row.seen_at, row.first_at = max(at, row.seen_at or at), min(at, row.first_at or at)
    row.source = record.source
    if row.member_id is not None and row.member_id not in row.ids[:1]:
        others = (each for each in row.ids if each != row.member_id)
        row.ids = (row.member_id, *others)[:_KEPT_IDS]
    match record.kind:
        case SampleKind.TRANSITION:
            _move(row, record, at)
        case SampleKind.LOST:
            _lose(row, record, at)
        case SampleKind.SAMPLE:
            _confirm(row, record, at)
        case SampleKind.SIGNAL:
            row.known = True
        case _:  # of groups, or of attributes
            pass
    if record.joined_ts is not None or is_unexplained(record.reason):
        row.active_at, row.left_at, row.removed = at, None, None
    if is_unexplained(record.reason) and record.generation is not None:
        row.synced_at, row.synced_in = at, record.generation


def _lose(row: FleetMember, record: Sample, at: float) -> None:
    held = row.open.pop(record.episode or "", None)
    row.known, row.reason = bool(row.open), None
    if held is not None and shows_validity(record):
        row.lost_at, row.lost_status = at, held._replace(since_at=row.confirmed_at)


def _note_attribute(row: FleetMember, record: Sample) -> None:
    if row.group_type != record.group_type:  # an assignor is of one protocol
        row.attributes = {k: v for k, v in row.attributes.items() if k not in _OF_PROTOCOL}
    if record.kind is SampleKind.CHANGE and record.field in _ATTRIBUTES and record.after:
        row.attributes[record.field] = intern(record.after[:_ATTRIBUTE_CHARS])


def find_left_at(rows: Iterable[FleetMember]) -> float | None:
    """Return when a member left (Unix seconds); None: it did not, or it was active later."""
    found = list(rows)
    left_at = max((row.left_at for row in found if row.left_at is not None), default=None)
    if left_at is None or any(row.left_at is None and row.active_at > left_at for row in found):
        return None
    return None if _has_other_log(found, left_at) else left_at


def _has_other_log(rows: Sequence[FleetMember], left_at: float) -> bool:
    """Whether logs alone show a leave, and another log without member ids goes on.

    That one is another member's. Its agent still samples it; an agent that is late has samples of
    before the leave.
    """
    if any(row.left_at is not None and row.source not in FILE_SOURCES for row in rows):
        return False
    others = [row for row in rows if row.left_at is None and row.source in FILE_SOURCES]
    return any(not row.ids and (row.seen_at or 0.0) > left_at + SAMPLED_S for row in others)


def is_back(rows: Iterable[FleetMember]) -> bool:
    """Return whether an agent has reported a member after another one's report of its leave.

    Its clock may be behind. An agent that reports late has the right time: both must agree that a
    member is gone.
    """
    found = list(rows)
    heard_at = max(row.left_heard for row in found)
    return any(row.left_at is None and row.active_heard > heard_at for row in found)


def find_removed(rows: Iterable[FleetMember]) -> OpenEpisode | None:
    """Return the status of a member that the brokers have removed, while its client is silent.

    The removal ends the episode in the broker's log: the group goes on without the member.
    """
    found = list(rows)
    active_at = max(row.active_at for row in found)
    return next(
        (row.removed for row in found if row.removed and active_at <= row.removed.since_at), None
    )


def _confirm(row: FleetMember, record: Sample, at: float) -> None:
    """Apply a periodic sample: it may show an episode that began before this hub's start."""
    row.known = True
    if record.to and record.episode and record.episode not in row.open:
        status = RebalanceStatus(record.to)
        _open(row, record.episode, OpenEpisode(status, at, record.reason, record.generation))


def hand_over(episode: str, old: FleetMember, new: FleetMember) -> None:
    """Give an open episode, and the member ids, to the row that its agent has for it now."""
    _open(new, episode, old.open.pop(episode))
    new.ids = tuple(dict.fromkeys((*new.ids, *old.ids)))[:_KEPT_IDS]


def _open(row: FleetMember, episode: str, held: OpenEpisode) -> None:
    """Add or raise an open episode; of too many the oldest goes."""
    row.open.pop(episode, None)
    row.open[episode] = held
    if len(row.open) > _MAX_OPEN:
        del row.open[next(iter(row.open))]


def _move(row: FleetMember, record: Sample, at: float) -> None:
    name = record.episode or ""
    row.known = True
    row.steps = add_to_window(row.steps, row.highest.status, at)
    if record.to:
        status = RebalanceStatus(record.to)
        _open(row, name, OpenEpisode(status, at, record.reason, record.generation))
        row.left_at = row.removed = None
        row.active_at = at
        return
    held = row.open.pop(name, None)
    is_removal = record.outcome is Outcome.FAILED and record.source in BROKER_SOURCES
    row.removed = held if is_removal else None
    row.since_at, row.reason = at, record.reason
    row.ended = (name, *row.ended)[:_KEPT_ENDS] if name else row.ended
    row.left_at = at if record.outcome is Outcome.LEFT else None
    if record.outcome is Outcome.SYNCED:
        row.active_at = at
        if record.generation is not None:
            row.synced_at, row.synced_in = at, record.generation
