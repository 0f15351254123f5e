"""Recommendations for an incident: a setting, its present value and the proposed value. Pure.

The texts are data in ``recommendations.toml``, read at the first incident. A value is proposed only
if the incident shows how much was needed.

Source: incidents.md sections 5 and 6.
"""

import re
from collections.abc import Collection, Iterator
from functools import cache
from importlib.resources import files
from math import inf
from string import Formatter
from typing import NamedTuple

import msgspec

from aggregation.incidents.model import DepartureMode, Incident, IncidentKind, save_by_waiting
from aggregation.incidents.premises import PREMISES
from aggregation.incidents.settings import (
    BROKER_SESSION_S,
    LONGEST_INTERVAL_S,
    LONGEST_PAUSE_S,
    SESSION_TIMEOUT,
    ClientKind,
    has_broker_session,
    setting_of,
)
from metrics.model.sample import parse_time

MAX = 3
_MARGIN = 1.5
"""The proposed time is this many times the time that was needed."""
_NAMES_MAX = 3
_DEFAULT = " (the broker's default, no source shows this group's)"


class SettingAdvice(NamedTuple):
    """One setting or action to change; None if it is not known."""

    setting: str | None
    now: str | None
    proposed: str | None
    because: str
    price: str | None


class _AdviceText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    because: str
    setting: str | None = None
    price: str | None = None
    error: str | None = None
    """The entry applies to errors that match this pattern."""
    waits: bool = False
    """The setting makes the group wait for members that come back."""
    premises: tuple[str, ...] = ()
    """Names in `PREMISES`: the entry applies to incidents for which all of them hold."""


class _AdviceDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    entry: tuple[_AdviceText, ...]


class _SettingNumber(NamedTuple):
    now: str | None = None
    proposed: str | None = None
    note: str = ""
    """Origin of the present value, if no source shows it."""


def recommend(
    incident: Incident, declined: Collection[str] = frozenset()
) -> tuple[SettingAdvice, ...]:
    """Return at most `MAX` recommendations, the most useful first.

    ``declined`` are settings that would make the group wait longer than they save, over all its
    incidents.
    """
    values, found = _values(incident), list[SettingAdvice]()
    for entry in _load():
        if entry.kind in {incident.kind.value, "*"} and _is_apt(entry, incident, values):
            number = _numbers(incident).get(entry.setting or "", _SettingNumber())
            because = entry.because.format_map(values)
            price = None if entry.price is None else entry.price.format_map(values)
            setting = entry.setting and _setting_of(entry.setting, incident)
            if entry.waits and (setting in declined or _is_worse_to_wait(incident)):
                continue
            found.append(SettingAdvice(setting, number.now, number.proposed, because, price))
    return tuple(found[:MAX])


def _is_worse_to_wait(incident: Incident) -> bool:
    cost = incident.cost
    saved = save_by_waiting(cost.unread_partition_seconds, cost.away_partition_seconds)
    return saved is not None and saved < 0.0


def _setting_of(name: str, incident: Incident) -> str | None:
    return setting_of(name, incident.group_type, incident.client_kind)


@cache
def _load() -> tuple[_AdviceText, ...]:
    data = (files(__package__) / "recommendations.toml").read_bytes()
    return msgspec.toml.decode(data, type=_AdviceDocument).entry


def _is_apt(entry: _AdviceText, incident: Incident, values: dict[str, str]) -> bool:
    """Check that an incident has all values in an entry's text, and that the entry applies."""
    names = {name for _, name, _, _ in Formatter().parse(entry.because) if name}
    is_of_type = entry.setting is None or _setting_of(entry.setting, incident)
    if not names <= values.keys() or not is_of_type:
        return False
    if entry.error is not None and not re.search(entry.error, values.get("error", "")):
        return False
    if incident.kind is IncidentKind.MEMBER_LEFT and not incident.rebalances:
        return False  # the last of its group: nobody had to rebalance
    return all(PREMISES[name](incident) for name in entry.premises)


def _values(incident: Incident) -> dict[str, str]:
    """Return the values of an incident by placeholder of the texts."""
    detail, by = incident.detail, incident.detail.get("by")
    error, number = detail.get("error"), next(iter(_numbers(incident).values()), _SettingNumber())
    between, silence = detail.get("between_polls_ms"), _silence_s(incident)
    shown = {
        "members": _names(sorted(map(incident.name_of, incident.members))),
        "between": f"{between / 1000:.1f} s" if isinstance(between, int) else "",
        "silence": "" if silence is None else f"{silence:.1f} s",
        "now": "" if number.now is None else f"{int(number.now) / 1000:g} s" + number.note,
        "session": _setting_of(SESSION_TIMEOUT, incident),
        "error": error if isinstance(error, str) else incident.reason or "",
        "not_stored": str(detail.get("not_stored", "")),
        "by": f"client {by.get('client_id')} on {by.get('host')}"
        if isinstance(by, dict)
        else "an admin client",
        "dropped": _names(_dropped_others(incident)),
        "waits": _names(_slow_members(incident)),
        "work": _place_of_work(incident),
        "slow": _remedy_of_slow_calls(incident),
        "cooperative": "cooperative-sticky"
        if incident.joins_without_poll
        else "CooperativeStickyAssignor",
        **_changed_topics(incident),
        "missing": ", ".join(incident.missing),
    }
    return {name: text for name, text in shown.items() if text}


def _dropped_others(incident: Incident) -> list[str]:
    """Return members that exceeded their poll interval while the group waited for them."""
    waits = {wait.member for wait in incident.waiting_for}
    return [
        incident.name_of(each.member)
        for each in incident.departures
        if each.how is DepartureMode.DROPPED and each.member in waits
    ]


def _slow_members(incident: Incident) -> list[str]:
    """Return members that worked while the group waited for them.

    Others were waited for because they were gone, or because their join had failed.
    """
    gone = {each.member for each in incident.departures if each.how in _GONE}
    for kind, members in ((incident.kind, incident.members), *incident.also):
        if kind in {IncidentKind.JOIN_FAILED, IncidentKind.FENCED}:
            gone |= set(members)
    slow = (each.member for each in incident.waiting_for if each.member not in gone)
    return [*map(incident.name_of, slow)]


_GONE = {DepartureMode.EXPIRED, DepartureMode.FENCED, DepartureMode.REMOVED}


def _place_of_work(incident: Incident) -> str:
    """Return where less work makes a member join sooner, in the words of its client."""
    match incident.client_kind:
        case ClientKind.CONNECT:
            return "to stop connectors and tasks"
        case ClientKind.STREAMS:
            return "between polls"
    callback = "the rebalance callback" if incident.joins_without_poll else "onPartitionsRevoked"
    return f"between polls and in {callback}"


def _remedy_of_slow_calls(incident: Incident) -> str:
    """Return where slow calls belong: consumers of partitions alone can pause them."""
    is_consumer = incident.client_kind is ClientKind.CONSUMER and incident.group_type != "share"
    other = ", or in a thread of their own with the partitions paused" if is_consumer else ""
    return f"under a time-out{other}"


def _changed_topics(incident: Incident) -> dict[str, str]:
    """Return the topics that grew, appeared and went away, or were not seen for a moment."""
    found: dict[str, list[str]] = {"grown": [], "new": [], "lost": []}
    topics = incident.detail.get("topics")
    is_metadata = incident.kind is IncidentKind.METADATA_CHANGED
    rows = topics if is_metadata and isinstance(topics, list) else []
    for row in rows:
        kind = "lost" if not row.get("after") else "grown" if row.get("before") else "new"
        found[kind].append(str(row.get("topic")))
    unseen = incident.detail.get("unseen_topics")
    found["unseen"] = [str(each) for each in unseen] if isinstance(unseen, list) else []
    return {kind: _names(names) for kind, names in found.items()}


def _names(given: list[str]) -> str:
    names = [name for name in dict.fromkeys(given) if name]
    more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    return ", ".join(names[:_NAMES_MAX]) + more


def _numbers(incident: Incident) -> dict[str, _SettingNumber]:
    """Return the numbers now and proposed, by setting."""
    return dict(_find_numbers(incident))


def _find_numbers(incident: Incident) -> Iterator[tuple[str, _SettingNumber]]:
    detail = incident.detail
    interval, between = detail.get("max_poll_interval_ms"), detail.get("between_polls_ms")
    if isinstance(interval, int) and incident.kind is IncidentKind.POLL_TIMEOUT:
        needed = between if isinstance(between, int) else inf
        proposed = _round_up(needed) if needed <= 1000 * LONGEST_INTERVAL_S else None
        yield "max.poll.interval.ms", _SettingNumber(str(interval), proposed)
    timeout_s, silence = _session_s(incident), _silence_s(incident)
    if timeout_s is not None and silence is not None:
        now, note = str(round(1000 * timeout_s)), "" if "session_timeout_ms" in detail else _DEFAULT
        yield SESSION_TIMEOUT, _SettingNumber(now, _round_up(1000 * silence), note)


def _silence_s(incident: Incident) -> float | None:
    """Return the silence of a member that came back itself, in seconds; None for a dead one."""
    timeout_s = _session_s(incident)
    gone = next((d for d in incident.departures if d.how is DepartureMode.EXPIRED), None)
    if incident.kind is not IncidentKind.SESSION_EXPIRED or gone is None:
        return None
    if gone.returned_at is None or gone.returned_as_new or timeout_s is None:
        return None
    shown = incident.detail.get("since")
    since = parse_time(shown) if isinstance(shown, str) else gone.at
    silence = gone.returned_at - since
    return silence if timeout_s < silence <= LONGEST_PAUSE_S else None


def _session_s(incident: Incident) -> float | None:
    """Return the session timeout in seconds, as seen, or the broker's default.

    None: no source shows the timeout, and it is a setting of the client.
    """
    timeout = incident.detail.get("session_timeout_ms")
    if isinstance(timeout, int):
        return timeout / 1000
    return BROKER_SESSION_S if has_broker_session(incident.group_type) else None


def _round_up(needed_ms: float) -> str:
    """Return a round time with a margin: whole seconds, from a minute on tens of them."""
    with_margin = _MARGIN * needed_ms
    step = 1_000 if with_margin < 60_000 else 10_000
    return str(int(-(-with_margin // step) * step))
