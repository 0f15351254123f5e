"""Timestamps in the head of log lines.

Theory of operation. A timestamp counts only in the places that layouts use: at the start of the
line, or after a level, ``[thread]``, a process id, logfmt pairs, a syslog or compose prefix or
colours, and within the first 160 characters. That is enough for the longest thread name with a
level. A date inside a message is ignored. If the text before the message has another shape, the
date and time nearest to the message counts (`TimestampReader.find_before`). Every form is one
pattern with a key (all of it up to the minute), seconds, a fraction and a tail (zone, AM or PM). So
a line with the same key as the line before needs only a short match.

A missing year or day is taken from the arrival: the latest one that is not after it. Logs that have
only times of day and span more than a day before their arrival cannot be dated. The order of day
and month in 06/03 is resolved likewise, until a number above 12 decides it. A local time that
exists twice is the second one if the first would run back, or if the second is now. A local time
that a clock jumped over has the offset from before the jump, as clocks do.
"""

import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cached_property, lru_cache

from agent.errors import ConfigError
from agent.sources.lines.times.locale_names import AFTERNOON, MONTHS, MORNING
from agent.sources.lines.times.time_zone import find_zone

_HEAD_CHARS = 160
_BEFORE_CHARS = 1_024
"""Searched before a message if its time is not in the head of its line."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH_NUMBERS = {
    name[:length]: number
    for length in (3, 4, 5, 99)
    for number, names in enumerate(MONTHS, 1)
    for name in names.split()
}
del _MONTH_NUMBERS["jui"]  # June or July in French
_MONTH = (
    rf"(?P<month>(?i:{'|'.join(sorted(map(re.escape, _MONTH_NUMBERS), key=len, reverse=True))})"
    r"|\d{1,2}[月월]|thg \d{1,2})\.?"
)
_CLOCK = r"(?P<hour>\d\d?):(?P<minute>\d\d)"
_EAST_HALF = "(?:(?P<half>上午|下午|午前|午後|오전|오후) ?)?"
_EAST_CLOCK = r"(?P<hour>\d\d?)(?::|[时時시] ?)(?P<minute>\d\d)(?::|[分분] ?)"
"""Chinese, Japanese and Korean write the half of the day before the time, and words in it."""
_SYSLOG = rf"(?:{'|'.join(_MONTHS)}) [ \d]\d \d\d:\d\d:\d\d \S{{1,64}} [^\s:]{{1,64}}:"
_BEFORE = (
    r"\x1b\[[\d;]*m"
    r"|\[[^\]\[]{0,80}\](?:\s{1,16}\|(?=\s))?"  # podman-compose writes a bar behind it
    r"|(?i:trace|debug|info|warn(?:ing)?|error|fatal|severe|critical)(?!\w):?"
    r"|<\d{1,3}>"
    r"|#{4}(?=<)"  # WebLogic
    r"|\[#\|"  # GlassFish
    r"|%\d\|"  # librdkafka's level
    r"|-(?=\s)"  # NestJS
    r"|[DIWEFA],"  # Ruby's Logger
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},?(?=\s)"
    rf"|(?!(?:{'|'.join(_MONTHS)}) )"  # a day of the week, in any language
    r"[A-Za-z\u00c0-\u024f\u0370-\u04ff]{2,12}\.?,?(?=\s\d\d?[ .])"
    r"|(?=[\w.-]{0,63}[_\d])[\w.-]{1,64}(?=\s(?:19|20)\d\d-\d\d-\d\d[ T])"  # a name, of podman
    r"|=[A-Z]{1,16} REPORT===="  # Erlang
    r"|\d{1,7}(?=\s)"
    r"|[\w.-]{1,64}\s+\|"  # docker compose logs
    r"|(?:[a-z\d-]{1,63} )?(?=[a-z\d.]+-)[a-z\d.-]{3,100} [a-z\d-]{1,63}(?= )"  # stern
    r"|[a-z_]{1,16}=(?:\"[^\"\n]{0,64}\"|[^\s\"]{0,64})(?=\s)"
    rf"|{_SYSLOG}"
)
_HEAD = rf"\s*(?:(?:{_BEFORE})\s*){{0,5}}?(?:(?:time|ts|timestamp|t)=)?[\[(<\"]{{0,2}}"
_SECOND = r"(?P<second>[0-5]\d|60)(?:[.,:](?P<fraction>\d+))?"
_ZONE_HOURS = {
    "Z": 0, "z": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEZ": 0, "WEST": 1, "BST": 1, "CET": 1, "MEZ": 1,
    "CEST": 2, "MESZ": 2, "EET": 2, "OEZ": 2, "EEST": 3, "OESZ": 3, "MSK": 3, "IST": 5.5, "SGT": 8,
    "HKT": 8, "AWST": 8, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "BRT": -3, "EDT": -4,
    "EST": -5, "CDT": -5, "CST": -6, "MDT": -6, "MST": -7, "PDT": -7, "PST": -8,
}  # fmt: skip
"""Offsets of zones by their short names, as Liberty and others print them. Of a name with several
meanings it is the one of the largest country; 5.5 is India's."""
_ZONE_ID = (
    r"\s?\[?(?:Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Brazil|Canada|Chile|Etc"
    r"|Europe|Indian|Mexico|Pacific|US)/[A-Za-z_]{1,32}(?:[/+-][A-Za-z\d_]{1,32})?(?![\w/])\]?"
)
"""Name of a zone, as java.time writes it in brackets behind a time; with an offset, that counts."""
_A_ZONE = (
    rf"{_ZONE_ID}"
    r"|\s?(?:GMT|UTC)[+-]\d\d?(?::?\d\d)?(?!\w)"
    rf"|\s?(?:{'|'.join(sorted(_ZONE_HOURS, key=len, reverse=True))}|[+-]\d\d:?\d\d)(?!\w)"
    r"|[+-]\d\d(?!\w)"
)
_AFTERNOON = ("PM", "P.M.", "P. M.", *AFTERNOON)
_MORNING = ("AM", "A.M.", "A. M.", *MORNING)
_WORDS = "|".join(re.escape(w) for name in AFTERNOON + MORNING for w in (name, name.lower()))
_HALF = (  # since JDK 20 with a narrow no-break space
    r"(?:[\s\u202f]?(?i:[AP]M)(?!\w)|[\s\u202f](?:(?i:[ap]\.[\s\xa0]?m\.)"
    rf"|(?:{_WORDS})(?=\s|$)))"
)
_ZONE = rf"(?P<tail>{_A_ZONE}|{_HALF})?"

_HOUR_S, _DAY_S = 3600.0, 86400.0
_MONTHS_A_YEAR = 12
_YEAR_DAYS, _LEAP_DAYS = 365.25, 1.5
_TAI64N = re.compile(r"@(4[\da-f]{15})([\da-f]{8})(?![\da-f])")
"""Label of daemontools and s6; both count TAI from 1970 and ten seconds, without leap seconds."""
_TAI_BEGIN_S = (1 << 62) + 10
_RAN_BACK_S = 120.0
"""Threads write a little out of order, minutes are compared; a repeated hour goes back further."""
_EPOCH_MIN_S, _EPOCH_MAX_S = 1_000_000_000, 4_102_444_800
_HOUR_DIGITS = 2
_ZONE_MAX_S = 18 * _HOUR_S  # java.time.ZoneOffset
_NEVER = "(?!)"


class _Form:
    """A form of timestamp: the whole pattern, and the pattern of the rest after a known begin.

    A form is compiled when a line needs it: most logs have one form, and all take 60 ms.
    """

    def __init__(self, core: str, rest: str = _NEVER) -> None:
        self._core, self._rest = core, rest
        self.has_year = "<year>" in core or "<first>" in core or "<epoch>" in core
        is_numbers = "<one>" in core and not self.has_year
        self.has_day = "<day>" in core or "<first>" in core or is_numbers
        self.is_dated = self.has_year and self.has_day and "<second>" in core

    @cached_property
    def whole(self) -> re.Pattern[str]:
        """Return the pattern of the head with its timestamp."""
        return re.compile(_HEAD + self._core, re.ASCII)

    @cached_property
    def anywhere(self) -> re.Pattern[str]:
        """Return the pattern of the timestamp alone, not directly after a word or number."""
        return re.compile(rf"(?<![\w./-]){self._core}", re.ASCII)

    @cached_property
    def rest(self) -> re.Pattern[str]:
        """Return the pattern of the seconds, the fraction and the tail."""
        return re.compile(self._rest, re.ASCII)


def _form(
    to_the_minute: str, separator: str = ":", tail: str = _ZONE, *, has_rest: bool = True
) -> _Form:
    rest = rf"{_SECOND}{tail}(?!:?\d)"
    core = rf"(?P<key>{to_the_minute}){separator}{rest}"
    return _Form(core, rest if has_rest else _NEVER)


_NO_TAIL = r"(?P<tail>)"
SECONDS = re.compile(rb"(?:[0-5]\d|60)[.,]\d+")
_DIGIT = re.compile(r"\d", re.ASCII)
_TIME = re.compile(
    r"\d:\d\d(?::\d\d|\s?[AP]M)|\d{8}(?:T|\d\d)|\d[分분]|\d\d([-.])\d\d\1\d\d(?!\d)"
    r"|\d\d \d\d:\d\d [A-Z+-]",
    re.ASCII,
)
"""A part of every form; a line without it needs no form."""
_EPOCH = _Form(  # it has no minutes, so no rest
    r"(?P<epoch>\d{10}(?:\d{3}|\d{6}|\d{9}|\.\d{1,9})?)(?![\w.])"
)
_COMPACT = r"(?P<year>20\d\d)(?P<month>[01]\d)(?P<day>[0-3]\d)(?P<hour>[0-2]\d)(?P<minute>[0-5]\d)"
_COMPACT_SECOND = r"(?P<second>[0-5]\d)(?P<fraction>\d{3})?(?P<tail>)(?![\d.])"
_FORMS = (
    # log4j, Logback and Spring Boot, Python logging, ISO 8601, slog, Go's log, ClickHouse
    _form(rf"(?P<year>(?:19|20)\d\d)[-/.](?P<month>\d\d)[-/.](?P<day>\d\d),?[T _|-]{_CLOCK}"),
    _form(
        r"(?P<year>(?:19|20)\d\d)[-.](?P<month>\d\d)[-.](?P<day>\d\d)[T _]"
        r"(?P<hour>[0-2]\d)[-.](?P<minute>[0-5]\d)",
        "[-.]",
        tail=r"(?P<tail>)(?![\w-])",
    ),
    _EPOCH,
    # log4j's COMPACT
    _Form(rf"(?P<key>{_COMPACT}){_COMPACT_SECOND}", _COMPACT_SECOND),
    # log4j's ISO8601_BASIC
    _form(
        r"(?P<year>(?:19|20)\d\d)(?P<month>\d\d)(?P<day>\d\d)T(?P<hour>\d\d)(?P<minute>\d\d)", ""
    ),
    # Google's C++ log, FIX engines
    _form(rf"[IWEF]?(?P<year>(?:19|20)\d\d)(?P<month>\d\d)(?P<day>\d\d)[ -]{_CLOCK}"),
    # log4j's DATE, Tomcat, Erlang
    _form(
        rf"(?P<day>\d\d?)\.?(?: de)?[ /-]?{_MONTH}(?: de)?[ /-]?(?P<year>(?:19|20)\d\d)"
        rf"(?:,? (?:(?:at|um|à|às|alle|kl\.) )?|:{{1,2}}){_CLOCK}"
    ),
    # RFC 822, or the year first; with a year of four digits it is the form before
    _form(rf"(?P<first>\d\d)[ -]?{_MONTH}[ -]?(?P<last>\d\d)[ :]{_CLOCK}"),
    _form(rf"(?P<year>(?:19|20)\d\d)[ /-]{_MONTH}[ /-](?P<day>\d\d?)[ :]{_CLOCK}"),
    # Chinese, Japanese, Korean and Hungarian dates
    _form(
        r"(?P<year>(?:19|20)\d\d)(?:[年년/-]|\. ) ?(?P<month>\d\d?)(?:[月월/-]|\. ) ?"
        rf"(?P<day>\d\d?)(?:[日일]|\. | ) {{0,2}}{_EAST_HALF}{_EAST_CLOCK}",
        "",
        tail=rf"(?P<tail>{_A_ZONE}|{_HALF}|[秒초])?",
    ),
    # WebSphere and Liberty: the short date of the locale, and the zone's name
    _form(
        r"\[(?P<one>\d\d?)/(?P<two>\d\d?)/(?P<year>\d\d),? (?P<hour>\d\d?):(?P<minute>\d\d)",
        tail=rf"(?P<tail> [A-Z][A-Z\d+:-]{{1,8}}(?=\])|{_HALF})?",
    ),
    _form(
        rf"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d\d),? {_CLOCK}",
        tail=r"(?P<tail> [A-Z][A-Z\d+:-]{1,8}(?=\]))?",
    ),
    # Spark's and Hadoop's default; in a bracket it is WebSphere's
    _form(
        rf"(?<!\[)(?P<year>1[4-9]|[2-4]\d)/(?P<month>\d\d)/(?P<day>\d\d) {_CLOCK}", tail=_NO_TAIL
    ),
    # Tornado and Jupyter, which write the level's letter before it
    _form(
        rf"(?:[A-Z] )?(?P<year>1[4-9]|[2-4]\d)(?P<month>[01]\d)(?P<day>[0-3]\d) {_CLOCK}",
        tail=_NO_TAIL,
    ),
    # the same numbers in the order of the United States or of Europe, where Spark's is no date
    _form(
        r"(?P<one>\d\d)/(?P<two>\d\d)/(?P<year>\d\d),? (?P<hour>\d\d?):(?P<minute>\d\d)",
        tail=rf"(?P<tail>{_HALF})?",
    ),
    _form(rf"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>(?:19|20)\d\d),? {_CLOCK}"),
    # a year of two digits, at the begin or at the end
    _form(rf"(?P<first>\d\d)-(?P<month>\d\d)-(?P<last>\d\d),? {_CLOCK}"),
    # day and month, or month and day; .NET
    _form(
        r"(?P<one>\d\d?)(?P<mark>[/-])(?P<two>\d\d?)(?P=mark)(?P<year>(?:19|20)\d\d)"
        r"(?:,? | - )(?P<hour>\d\d?):(?P<minute>\d\d)",
        tail=rf"(?P<tail>{_HALF}(?:{_A_ZONE})?|{_A_ZONE})?",
    ),
    # java.util.logging, Kibana
    _form(
        rf"{_MONTH}[ -](?P<day>\d\d?)(?:st|nd|rd|th)?,?[ -](?P<year>(?:19|20)\d\d),?(?: @| at)? "
        rf"{_CLOCK}",
        tail=rf"(?P<tail>{_HALF}(?:{_A_ZONE})?)?",
    ),
    # syslog, where its text has no better stamp
    _form(
        rf"(?<!\A\d\d )(?!{_SYSLOG} \W?\d{{4}}-){_MONTH} (?P<day>[ \d]\d) {_CLOCK}",
        tail=rf"(?P<tail>{_HALF})?",
        has_rest=False,
    ),
    # Apache's error log, whose year stands behind the time
    _form(rf"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) {_MONTH} (?P<day>[ \d]\d) {_CLOCK}", has_rest=False),
    _form(rf"[IWEF](?P<month>\d\d)(?P<day>\d\d) {_CLOCK}", tail=_NO_TAIL),  # klog
    # day and month without a year, in the order of Europe, or in one that is not known
    _form(rf"(?P<day>\d\d?)[ -]{_MONTH},? {_CLOCK}", tail=_NO_TAIL),
    _form(rf"(?P<day>[0-3]\d)\.(?P<month>[01]\d)\.?,? {_CLOCK}", tail=_NO_TAIL),
    _form(rf"(?P<day>1[3-9]|2\d|3[01])-(?P<month>[01]\d) {_CLOCK}", tail=_NO_TAIL),
    _form(rf"(?P<one>\d\d)/(?P<two>\d\d),? {_CLOCK}", tail=rf"(?P<tail>{_HALF})?"),
    # RFC 822 without seconds, as pterm prints it
    _Form(
        rf"(?P<key>(?P<day>\d\d) {_MONTH} (?P<year>\d\d) {_CLOCK})"
        r"(?P<second>)(?P<fraction>)(?P<tail> (?:[A-Z]{3,5}|[+-]\d{4}))(?!\w)"
    ),
    # stern --timestamps=short, log15
    _form(rf"(?P<month>[01]\d)-(?P<day>[0-3]\d)[ |]{_CLOCK}", tail=_NO_TAIL),
    _form(_CLOCK, tail=rf"(?P<tail>{_HALF})?"),  # Logback's default
    # Go's time.Kitchen, as zerolog's console prints it
    _Form(rf"(?P<key>{_CLOCK})(?P<second>)(?P<fraction>)(?P<tail>\s?[AP]M)(?!\w)"),
)

_DATED_FORMS = tuple(form for form in _FORMS if form.is_dated)


@lru_cache(maxsize=64)
def _layout_of(shape: str, tail: str | None) -> tuple[str, str | None]:
    """Return one object for all streams of a layout."""
    return shape, tail


def estimate_arrival(changed_at: float, now: float) -> float:
    """Return the arrival time (Unix seconds) of a file's content: its last change.

    Archives without times set 1970 or 1980, before any log: then it is ``now``.
    """
    return changed_at if changed_at >= _EPOCH_MIN_S else now


def parse_epoch(value: float) -> float | None:
    """Return Unix seconds, or None for a number that is not the time of a log.

    The size of ``value`` identifies seconds, milli-, micro- or nanoseconds. From 2001 on every
    second has ten digits; a value outside of 2001-2100 is a duration, a counter or junk.
    """
    for scale in (1, 1_000, 1_000_000, 1_000_000_000):
        if _EPOCH_MIN_S * scale <= value < _EPOCH_MAX_S * scale:
            return value / scale
    return None


class TimestampReader:
    """Reader of one stream's timestamps; it tries the form of the last line first."""

    def __init__(self, timezone: str | None) -> None:
        """``timezone`` is the IANA name for timestamps without a zone; None is the machine's.

        Raises:
            ConfigError: no such time zone.

        """
        self._zone = None if timezone is None else find_zone(timezone)
        self._form = _FORMS[0]
        self._start = ""
        self._key = ""
        self._tail: str | None = None
        self._minute_at = 0.0
        self._valid_until = 0.0
        self._last_at: float | None = None
        self._day_first: bool | None = None
        self.begin = b""
        """The last line up to its seconds; a line with the same begin has the same minute, if the
        text after its seconds has the same layout."""
        self.layout: tuple[str, str | None] = ("", None)
        """Shape of the last line up to its seconds (each digit as 0), and its zone."""

    def forget_late(self, arrival_at: float) -> None:
        """Forget the begin of the last line if it does not hold for lines that arrive now."""
        if arrival_at >= self._valid_until:
            self.begin = b""

    def date_again(self, seconds: bytes) -> float:
        """Return the time (Unix seconds) of a line with `begin`, from its seconds."""
        self._last_at = at = self._minute_at + float(seconds.replace(b",", b"."))
        return at

    def place_day(self, at: float, known_at: float | None) -> float:
        """Return the last time found, on the day of a collector's time (both Unix seconds).

        A form without a date has the day of its arrival, and that may be long after the event. A
        form without a year is moved by whole years only: the collector's clock may lack a date,
        too.
        """
        if known_at is None or self._form.has_year:
            return at
        days = round((known_at - at) / _DAY_S)
        off_years = abs(days - round(days / _YEAR_DAYS) * _YEAR_DAYS)
        return at if self._form.has_day and off_years > _LEAP_DAYS else at + days * _DAY_S

    def find(self, text: str, arrival_at: float) -> float | None:
        """Return the timestamp in the head of ``text`` as Unix seconds, None without one."""
        if arrival_at < self._valid_until and text.startswith(self._start):
            rest = self._form.rest.match(text, len(self._start), _HEAD_CHARS)
            if rest is not None and rest[3] == self._tail:
                self._last_at = self._minute_at + _seconds(rest[1], rest[2])
                return self._last_at
        if text.startswith("@4") and (label := _TAI64N.match(text)) is not None:
            return int(label[1], 16) - _TAI_BEGIN_S + int(label[2], 16) / 1e9
        if _TIME.search(text, 0, _HEAD_CHARS) is None:
            return None
        for form in (self._form, *_FORMS):
            match = form.whole.match(text, 0, _HEAD_CHARS)
            if match is not None and (at := self._read(form, match, arrival_at)) is not None:
                return at
        return None

    def find_before(self, text: str, end: int, arrival_at: float) -> float | None:
        """Return the last timestamp with a date before ``end``, the begin of the message."""
        begin = max(0, end - _BEFORE_CHARS)
        if _TIME.search(text, begin, end) is None:
            return None
        for form in _DATED_FORMS:
            matches = list(form.anywhere.finditer(text, begin, end))
            if matches and (at := self._read(form, matches[-1], arrival_at)) is not None:
                return at
        return None

    def _read(self, form: _Form, match: re.Match[str], arrival_at: float) -> float | None:
        """Return the time of a match, None if there is no such date."""
        if form is _EPOCH:
            self._form, self.begin = form, b""
            at = parse_epoch(float(match["epoch"]))
        else:
            try:
                at = self._read_local(form, match, arrival_at)
            except ValueError:
                self._valid_until, self.begin = 0.0, b""
                return None
        self._last_at = self._last_at if at is None else at
        return at

    def _read_local(self, form: _Form, match: re.Match[str], arrival_at: float) -> float:
        key, second, fraction, tail = match.group("key", "second", "fraction", "tail")
        if (self._key, self._tail) != (key, tail) or not arrival_at < self._valid_until:
            self._minute_at = self._minute(match, tail, arrival_at)
            self._key, self._tail = key, tail
        self._form = form
        self._set_start(match.string[: match.start("second")])
        self.forget_late(arrival_at)
        return self._minute_at + _seconds(second, fraction)

    def _set_start(self, start: str) -> None:
        self._start = start
        self.begin = start.encode() if start.isascii() else b""
        self.layout = _layout_of(_DIGIT.sub("0", start), self._tail)

    def _minute(self, match: re.Match[str], tail: str | None, arrival_at: float) -> float:
        # An hour: the key of a time of day comes again tomorrow.
        self._valid_until = arrival_at + _HOUR_S
        found = match.groupdict()
        hour, minute = int(found["hour"]), int(found["minute"])
        tail = (tail or "").strip()
        tail = tail.rstrip("秒초")
        half = _half_of(tail)
        tail = tail[len(half) :].strip()
        half = found.get("half") or half
        if half:
            hour = hour % 12 + (12 if half in _AFTERNOON else 0)
        zone = _named_zone(tail.strip("[]")) if "/" in tail else self._zone
        offset_s = _offset(tail) if tail and "/" not in tail else None
        year = int(found.get("year") or 0)
        year += 2000 if len(found.get("year") or "") == 2 else 0
        if "one" in found:
            day, month = self._in_order(year, found["one"], found["two"], arrival_at)
        elif "first" in found:
            month = _month(found["month"])
            year, day = self._by_year(month, found["first"], found["last"], arrival_at)
        elif "day" in found:
            day, month = int(found["day"]), _month(found["month"])
        else:
            return self._latest_day(hour, minute, arrival_at)
        if not year:
            return self._latest_year(month, day, hour, minute, arrival_at)
        local = datetime(year, month, day, hour, minute)  # noqa: DTZ001 - below
        if offset_s is None:
            return self._place(local, arrival_at, zone)
        return local.replace(tzinfo=UTC).timestamp() - offset_s

    def _place(self, local: datetime, arrival_at: float, zone: tzinfo | None = None) -> float:
        """Convert a local time of a zone; None is the configured one."""
        zone = zone or self._zone
        local = local.replace(tzinfo=zone)
        first, second = local.timestamp(), local.replace(fold=1).timestamp()
        if second <= first:  # it exists once, or was jumped over
            return first
        self._valid_until = 0.0
        is_now = abs(arrival_at - second) < _HOUR_S / 2
        return second if is_now or self._is_past(first, zone) else first

    def _is_past(self, at: float, zone: tzinfo | None) -> bool:
        """Return whether the last line was already in the second of two equal hours."""
        if self._last_at is None:
            return False
        was_second = datetime.fromtimestamp(self._last_at, zone).fold == 1
        ran_back = at + _RAN_BACK_S < self._last_at
        return ran_back or (was_second and at < self._last_at + _HOUR_S)

    def _in_order(self, year: int, one: str, two: str, arrival_at: float) -> tuple[int, int]:
        """Return day and month: in the known order, else the later date not in the future."""
        first, second = int(one), int(two)
        if (first > _MONTHS_A_YEAR) != (second > _MONTHS_A_YEAR):
            self._day_first = first > second
        day_first = self._day_first
        if day_first is None:  # either may be a month
            today = datetime.fromtimestamp(arrival_at + _DAY_S, self._zone).date()
            some = year or today.year  # without a year it is the last such day
            earlier, later = sorted((date(some, second, first), date(some, first, second)))
            is_later = later <= today or (not year and earlier > today)
            day_first = (later if is_later else earlier).day == first
        return (first, second) if day_first else (second, first)

    def _by_year(self, month: int, first: str, last: str, arrival_at: float) -> tuple[int, int]:
        """Return year and day of two numbers: the later date that is not in the future."""
        today = datetime.fromtimestamp(arrival_at + _DAY_S, self._zone).date()
        dates = list[date]()
        for year, day in ((first, last), (last, first)):
            with suppress(ValueError):
                dates.append(date(2000 + int(year), month, int(day)))
        past = [each for each in dates if each <= today] or dates
        if not past:
            raise ValueError
        return max(past).year, max(past).day

    def _latest_day(self, hour: int, minute: int, arrival_at: float) -> float:
        limit_at = arrival_at + _HOUR_S
        local = datetime.fromtimestamp(limit_at, self._zone).replace(
            hour=hour, minute=minute, second=0, microsecond=0, fold=0
        )
        at = self._place(local, arrival_at)
        return at if at <= limit_at else self._place(local - timedelta(days=1), arrival_at)

    def _latest_year(
        self, month: int, day: int, hour: int, minute: int, arrival_at: float
    ) -> float:
        limit_at = arrival_at + _DAY_S
        year = datetime.fromtimestamp(limit_at, self._zone).year
        for candidate in range(year, year - 9, -1):  # leap days are at most eight years apart
            try:
                local = datetime(candidate, month, day, hour, minute)  # noqa: DTZ001 - _place
            except ValueError:
                continue
            at = self._place(local, arrival_at)
            if at <= limit_at:
                return at
        raise ValueError


def _half_of(tail: str) -> str:
    """Return the half of the day that a tail begins with, in capitals, or an empty text."""
    text = tail.upper().replace("\xa0", " ")
    return next((half for half in (*_AFTERNOON, *_MORNING) if text.startswith(half)), "")


def _seconds(second: str, fraction: str | None) -> float:
    return float(f"{second}.{fraction}") if fraction else float(second or 0)


def _month(text: str) -> int:
    digits = text.removeprefix("thg ").rstrip("月월")
    return int(digits) if digits.isdigit() else _MONTH_NUMBERS[text.lower()]


@lru_cache(maxsize=64)
def _named_zone(name: str) -> tzinfo | None:
    """Return the zone of an IANA name; None for an unknown one."""
    try:
        return find_zone(name)
    except ConfigError:
        return None


def _offset(tail: str) -> float | None:
    """Return a zone's seconds east of UTC; None for an unknown name."""
    if tail[0].isalpha() and tail.isalpha():
        of_name = _ZONE_HOURS.get(tail)
        return None if of_name is None else of_name * _HOUR_S
    tail = tail.lstrip("GMTUC")  # GMT+1, as java.time writes an offset for people
    sign = -1 if tail[0] == "-" else 1
    hours, _, minutes = tail[1:].partition(":")
    if len(hours) > _HOUR_DIGITS:
        hours, minutes = hours[:-2], hours[-2:]
    seconds = int(hours) * _HOUR_S + int(minutes or 0) * 60.0
    if seconds > _ZONE_MAX_S:
        raise ValueError
    return sign * seconds
