"""Rules of the timeouts: static membership, session timeout, poll interval and records. Pure.

A number is proposed only from times that were seen. Where the value now is not seen, the proposal
is relative to it, and the confidence lower.
"""

from collections.abc import Iterator, Sequence
from math import ceil

from aggregation.counterfactuals.change import Change, PastIncidents, rate_confidence
from aggregation.counterfactuals.facts import Absence, IncidentFacts, latest
from aggregation.counterfactuals.lines import (
    POLL_RECORDS,
    STATIC_ID,
    client_lines,
    static_lines,
    stop_first_lines,
)
from aggregation.counterfactuals.savings import (
    REBALANCES_OF_AN_ABSENCE,
    Saving,
    save_all,
    save_by_longer_timeout,
    wait_longer,
)
from aggregation.counterfactuals.sentences import format_span, how_often
from aggregation.counterfactuals.timeout_now import (
    TimeoutNow,
    find_silence,
    read_poll_interval,
    read_session,
)
from aggregation.counterfactuals.timeouts import (
    MARGIN,
    Curve,
    TimeoutPoint,
    choose,
    draw_curve,
    round_up,
)
from aggregation.incidents.model import DepartureMode, IncidentKind
from aggregation.incidents.settings import LONGEST_INTERVAL_S, LONGEST_PAUSE_S, setting_of

DEFAULT_SESSION_S = 45.0
"""Default of Java clients from 3.0 on: no shorter one is proposed unseen."""
LONGEST_SESSION_S = 1800.0
"""Default of the broker's group.max.session.timeout.ms."""
LEAST_FULL = 3
"""Polls are taken as full to one part of so many at least: no source shows their records."""
_SHORTEST_INTERVAL_S = 0.001
"""Kafka has a poll interval of 1 ms at least; less is no interval of a consumer."""


def propose_static_membership(history: PastIncidents) -> Change | None:
    """Propose static membership with a session timeout.

    A planned restart or rollout has no rebalance if each member is back within the timeout. One
    that is later expires and joins: two rebalances, behind the wait for the timeout. A member that
    goes for good is noticed after the timeout, whether it left or died. Two processes with one id
    fence each other, so a member whose successor came before it left has to stop first: how long
    that takes is not recorded.
    """
    session, curve, asked = _draw_static(history)
    best = choose(curve)
    if best is None:
        return None
    timeout_ms = _ms(best.timeout_s)
    knows_unread = all(each.unread_s is not None for each in best.savings)
    overlaps = sum(len(_overlaps(each.incident)) for each in best.savings)
    return Change(
        setting=STATIC_ID,
        now=None,
        proposed=f"one stable id for each member, with {session.setting}={timeout_ms}",
        because=f"{len(best.savings)} of {asked} planned restarts and rollouts "
        f"had members back within {best.timeout_s:g} s{session.note}",
        price=f"partitions of a member that restarts wait for it{_of_restarts(best)}, "
        f"and one that is gone is missed only after {best.timeout_s:g} s"
        + _of_period(best)
        + session.limit(best.timeout_s)
        + (
            f"; {how_often(overlaps)} a successor started before its predecessor had left, which "
            "one id does not allow: each has to stop first"
            if overlaps
            else ""
        ),
        confidence=rate_confidence(session.is_seen, knows_unread, not overlaps),
        savings=best.savings,
        curve=curve,
        lines=static_lines(
            timeout_ms, history.all[0].group, session.group_type, session.client_kind
        )
        + (stop_first_lines() if overlaps else ()),
    )


def _overlaps(incident: IncidentFacts) -> list[Absence]:
    """Return the members that left when their successors were there, as in a surge."""
    return [
        each for each in incident.absences if each.how is DepartureMode.LEFT and each.seconds == 0.0
    ]


def _draw_static(history: PastIncidents) -> tuple[TimeoutNow, Curve, int]:
    """Return the session timeout, the curve over longer ones, and the number of its incidents."""
    kinds = {IncidentKind.RESTART, IncidentKind.ROLLOUT}
    found = [
        each
        for each in history.uncounted
        if each.kind in kinds
        and each.is_planned
        and not each.is_static
        and each.absences
        and setting_of(STATIC_ID, each.group_type, history.client_kind)
    ]
    session = read_session(history)
    now = session.seconds
    least = DEFAULT_SESSION_S if now is None else now
    spans = [seconds for each in found for seconds in _seconds(each.absences)]
    candidates = [min(LONGEST_SESSION_S, max(least, round_up(span))) for span in spans]

    def save_within(timeout_s: float) -> list[Saving]:
        return [saving for each in found if (saving := _save_static(each, timeout_s)).rebalances]

    def count_later(timeout_s: float) -> float:
        return sum(
            timeout_s if each.how is DepartureMode.LEFT else timeout_s - (now or 0.0)
            for each in _gone(history.all, {DepartureMode.LEFT, DepartureMode.EXPIRED})
        )

    return session, draw_curve(candidates, save_within, count_later), len(found)


def _save_static(incident: IncidentFacts, timeout_s: float) -> Saving:
    """Return what static membership saves of one incident."""
    spans = _seconds(incident.absences)
    late = len(incident.absences) - sum(span < timeout_s for span in spans)
    if not late and not _overlaps(incident):
        return save_all(incident)
    left = max(0, incident.rebalances - REBALANCES_OF_AN_ABSENCE * late)
    is_known = bool(left) and not _overlaps(incident)
    unread_s = _save_unread_but_late(incident, timeout_s, late) if is_known else None
    return Saving(incident=incident, rebalances=left, unread_s=unread_s)


def _save_unread_but_late(incident: IncidentFacts, timeout_s: float, late: int) -> float | None:
    """Return the unread seconds saved, where some members are back too late; None: unknown.

    Members had the same number of partitions, on average. Those of members that are back in time
    wait for them. Those of the others wait for the timeout, and then for as long as they did: their
    share of the rebalances stays.
    """
    spans = _seconds(incident.absences)
    if incident.unread_s is None or incident.away_s is None or not sum(spans):
        return None
    of_each = incident.away_s / sum(spans)
    waited_s = sum(span for span in spans if span < timeout_s) + late * timeout_s
    stays = REBALANCES_OF_AN_ABSENCE * late / incident.rebalances
    return incident.unread_s * (1 - stays) - of_each * waited_s


def propose_session_timeout(history: PastIncidents) -> Change | None:
    """Propose a longer session timeout.

    An expired member that came back after a silence has no rebalance with a timeout above it. A
    silence longer than `LONGEST_PAUSE_S` counts as a death, and so does one behind which it came
    back as a new member: with a longer timeout its group would wait for the process that is gone. A
    dead member is noticed later. Groups of the new protocols have the timeout at the broker: what
    their clients print has no effect.
    """
    session, curve, asked = _draw_session(history)
    return _longer(session, curve, asked, "were silent")


def _draw_session(history: PastIncidents) -> tuple[TimeoutNow, Curve, int]:
    session = read_session(history)
    dead = _gone(session.incidents, {DepartureMode.EXPIRED})
    under_it = {each.id for each in session.incidents}
    back = [
        (each, span)
        for each in history.uncounted
        if each.id in under_it
        and (span := find_silence(each)) is not None
        and span >= (session.seconds or 0.0)
    ]
    needed = [
        (each, span) for each, span in back if span <= LONGEST_PAUSE_S and not each.returned_as_new
    ]
    return session, _lengthen(needed, back, session.seconds, len(dead)), len(needed)


def propose_poll_interval(history: PastIncidents) -> Change | None:
    """Propose a longer poll interval.

    A member that was dropped and came back has no rebalance with an interval above the time
    between its polls: the one that was seen, else from the drop to the return, and the interval.
    Work of more than `LONGEST_INTERVAL_S` is left to `propose_poll_records`. A member that hangs is
    noticed later.
    """
    interval, curve, asked = _draw_interval(history)
    return _longer(interval, curve, asked, "polled late")


def _draw_interval(history: PastIncidents) -> tuple[TimeoutNow, Curve, int]:
    interval = read_poll_interval(history)
    now, hung = interval.seconds, _gone(history.all, {DepartureMode.DROPPED})
    slow = _slow(history, now)
    found = [(each, span) for each, span in slow if span <= LONGEST_INTERVAL_S]
    return interval, _lengthen(found, slow, now, len(hung)), len(found)


def find_declined(history: PastIncidents) -> Iterator[str]:
    """Yield the settings with a timeout for which no candidate is worth the wait."""
    session, interval = _draw_session(history), _draw_interval(history)
    settings = (STATIC_ID, session[0].setting, interval[0].setting)
    curves = (_draw_static(history)[1], session[1], interval[1])
    for setting, curve in zip(settings, curves, strict=True):
        if curve and choose(curve) is None:
            yield setting


def propose_poll_records(history: PastIncidents) -> Change | None:
    """Propose fewer records a poll, if no longer interval is worth it.

    That is also so for work of more than `LONGEST_INTERVAL_S`.
    The work between two polls is taken as proportional to the records that a poll returned. The
    number now is no part of incidents, so the proposal divides it. No source shows how full polls
    were, either: a smaller number changes nothing where a poll returned fewer records than that. So
    the number is so small that it is enough for polls that are full to one part of `LEAST_FULL`.
    Smaller polls cost little: the client has fetched the records before. The member polls in time,
    so its own partitions are read, too.

    Source: collectFetch (FetchCollector.java) returns what was fetched, up to max.poll.records.
    """
    now, kind = latest(history.all, "max_poll_interval_s"), history.client_kind
    curve = _draw_interval(history)[1]
    enough_s = LONGEST_INTERVAL_S if choose(curve) is not None else 0.0
    found = [(each, span) for each, span in _slow(history, now) if span > enough_s]
    has_setting = setting_of(POLL_RECORDS, history.all[-1].group_type, kind) is not None
    if not found or not has_setting or now is None or now < _SHORTEST_INTERVAL_S:
        return None
    longest = max(span for _, span in found)
    value = f"its value now / {ceil(MARGIN * LEAST_FULL * longest / now)}"
    return Change(
        setting=POLL_RECORDS,
        now=None,
        proposed=value,
        because=f"{len(found)} took up to {longest:.4g} s between two polls, {now:g} s are allowed",
        price="more overhead for each record; enough for polls that returned a third of the value "
        "now or more",
        confidence=rate_confidence(False, False),
        savings=tuple(
            Saving(incident=each, rebalances=each.rebalances, unread_s=each.unread_s)
            for each, _ in found
        ),
        lines=client_lines({POLL_RECORDS: f"<{value}>"}, found[0][0].group, None, kind),
    )


def _slow(history: PastIncidents, now: float | None) -> list[tuple[IncidentFacts, float]]:
    """Return incidents of slow members that came back, each with its time between polls."""
    found = []
    for each in history.uncounted:
        spans = _seconds(each.absences)
        if each.kind is not IncidentKind.POLL_TIMEOUT or not spans:
            continue
        if len(spans) == len(each.absences):
            seen = each.between_polls_s if now is not None else None
            found.append((each, max(seen or 0.0, max(spans) + (now or 0.0))))
    return found


_Spans = Sequence[tuple[IncidentFacts, float]]
"""Incidents, each with the time that its members needed."""


def _lengthen(needed: _Spans, back: _Spans, now: float | None, gone: int) -> Curve:
    """Return the curve over longer timeouts; where none is known now, over additions to it.

    Members that were ``back`` later than a candidate keep their group waiting for longer, as those
    do that are ``gone``.
    """
    base = now or 0.0
    candidates = [value for _, span in needed if (value := round_up(span)) > base]

    def save_within(timeout_s: float) -> list[Saving]:
        return [save_by_longer_timeout(each) for each, span in needed if span < timeout_s]

    def lose_beyond(timeout_s: float) -> list[Saving]:
        saved = {each.id for each, span in needed if span < timeout_s}
        return [wait_longer(each, timeout_s - base) for each, _ in back if each.id not in saved]

    def count_later(timeout_s: float) -> float:
        late = sum(len(each.incident.absences) for each in lose_beyond(timeout_s))
        return (gone + late) * (timeout_s - base)

    return draw_curve(candidates, save_within, count_later, lose_beyond)


def _longer(timeout: TimeoutNow, curve: Curve, asked: int, what: str) -> Change | None:
    best, now = choose(curve), timeout.seconds
    if best is None:
        return None
    value = _ms(best.timeout_s) if now is not None else f"its value now + {_ms(best.timeout_s)}"
    added = best.timeout_s - (now or 0.0)
    knows_unread = all(each.unread_s is not None for each in best.savings)
    line = value if now is not None else f"<{value}>"
    group = best.savings[0].incident.group
    return Change(
        setting=timeout.setting,
        now=timeout.value,
        proposed=value,
        because=f"{len(best.savings)} of {asked} incidents of members that {what} and came back "
        f"would have been within it{timeout.note}",
        price=f"a member that is dead or hangs is missed {added:g} s later"
        + _of_period(best)
        + timeout.limit(best.timeout_s),
        confidence=rate_confidence(timeout.is_seen, knows_unread),
        savings=best.savings,
        losses=best.losses,
        curve=curve,
        lines=client_lines({timeout.setting: line}, group, timeout.group_type, timeout.client_kind),
    )


def _of_period(best: TimeoutPoint) -> str:
    return f": {best.later_s:g} s in all for those of this period" if best.later_s else ""


def _of_restarts(best: TimeoutPoint) -> str:
    """Return the unread time that stays: it is as long as restarts take, and they differ."""
    kept = [
        each.incident.unread_s - each.unread_s
        for each in best.savings
        if each.incident.unread_s is not None and each.unread_s is not None
    ]
    if not kept:
        return ""
    return f" ({format_span(sum(kept))} unread stay, more if restarts take longer)"


def _seconds(absences: Sequence[Absence]) -> list[float]:
    return [each.seconds for each in absences if each.seconds is not None]


def _gone(facts: Sequence[IncidentFacts], how: set[DepartureMode]) -> list[Absence]:
    """Return the members that went for good."""
    return [
        absence
        for each in facts
        for absence in each.absences
        if absence.returned_at is None and absence.how in how
    ]


def _ms(seconds: float) -> str:
    return str(round(1000 * seconds))
