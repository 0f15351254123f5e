"""Timeouts that a group has now: the session timeout is the clients' or the broker's. Pure.

Where no source shows the broker's, its default counts; but no more than the shortest silence for
which a member was removed.
"""

from typing import NamedTuple

from aggregation.counterfactuals.change import PastIncidents
from aggregation.counterfactuals.facts import IncidentFacts, latest
from aggregation.counterfactuals.lines import POLL_INTERVAL
from aggregation.incidents.model import IncidentKind
from aggregation.incidents.settings import (
    BROKER_SESSION_MAX_S,
    BROKER_SESSION_S,
    SESSION_TIMEOUT,
    ClientKind,
    has_broker_session,
    setting_of,
)


class TimeoutNow(NamedTuple):
    """A timeout of a group at the end of a period."""

    setting: str
    group_type: str | None
    seconds: float | None
    """None: no source shows it, and it has no default that counts."""
    is_seen: bool
    incidents: tuple[IncidentFacts, ...]
    """Those under this setting: before a change of protocol there was another one."""
    client_kind: ClientKind

    @property
    def value(self) -> str | None:
        """The value in ms; None where it is not known, or an upper bound alone is."""
        is_known = self.is_seen or self.seconds == BROKER_SESSION_S
        return str(round(1000 * self.seconds)) if self.seconds is not None and is_known else None

    @property
    def note(self) -> str:
        """How the value is known, for a sentence; empty where a source shows it."""
        if self.is_seen or self.seconds is None:
            return ""
        if self.value is None:
            return f"; no source shows the timeout now, it is at most {self.seconds:.4g} s"
        return f"; {self.seconds:g} s is the broker's default, no source shows this group's"

    def limit(self, timeout_s: float) -> str:
        """Return what a longer one needs beside, for a sentence; empty where it needs nothing."""
        is_of_broker = self.setting == setting_of(SESSION_TIMEOUT, self.group_type)
        if not has_broker_session(self.group_type) or not is_of_broker:
            return ""
        if timeout_s <= BROKER_SESSION_MAX_S:
            return ""
        needed = f"group.{self.group_type}.max.session.timeout.ms"
        return f"; brokers allow {BROKER_SESSION_MAX_S:g} s unless {needed} is higher"


def read_session(history: PastIncidents) -> TimeoutNow:
    """Return the session timeout of a group."""
    group_type, kind = history.all[-1].group_type, history.client_kind
    setting = setting_of(SESSION_TIMEOUT, group_type) or SESSION_TIMEOUT
    found = tuple(
        each for each in history.all if setting_of(SESSION_TIMEOUT, each.group_type) == setting
    )
    seen = latest(found, "session_timeout_s")
    if seen is not None or not has_broker_session(group_type):
        return TimeoutNow(setting, group_type, seen, seen is not None, found, kind)
    silences = [span for each in found if (span := find_silence(each)) is not None]
    return TimeoutNow(setting, group_type, min([BROKER_SESSION_S, *silences]), False, found, kind)


def read_poll_interval(history: PastIncidents) -> TimeoutNow:
    """Return the poll interval of a group's members."""
    seen = latest(history.all, "max_poll_interval_s")
    group_type, kind = history.all[-1].group_type, history.client_kind
    setting = setting_of(POLL_INTERVAL, group_type, kind) or POLL_INTERVAL
    return TimeoutNow(setting, group_type, seen, seen is not None, tuple(history.all), kind)


def find_silence(incident: IncidentFacts) -> float | None:
    """Return the longest silence of members that expired and came back; None: there is none.

    Where no source shows since when, it is what came on top of the timeout.
    """
    spans = [each.seconds for each in incident.absences if each.seconds is not None]
    if incident.kind is not IncidentKind.SESSION_EXPIRED or not spans:
        return None
    if len(spans) < len(incident.absences):
        return None
    since = incident.silent_since
    before = 0.0 if since is None else max(0.0, incident.absences[0].at - since)
    return max(spans) + before
