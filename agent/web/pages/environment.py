"""Jinja2's environment of the pages: escaping of every text, and how values are written."""

import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from metrics.model.names import printable
from metrics.model.palette import css_variables
from metrics.model.sample import format_time, parse_time
from metrics.model.status import RebalanceStatus

_FOLDER = Path(__file__).parent
STATIC_TYPES = {
    "pages.css": "text/css",
    "pages.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
"""Media type of each file that pages load."""


@cache
def environment() -> Environment:
    """Return the environment, built at the first page."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {"span": span, "time": time_tag, "ago": ago_tag, "number": number}
    environment.filters |= {"instant": instant_tag, "detail": detail}
    environment.globals |= {"link": link, "static": static_link, "codes": list(RebalanceStatus)}
    return environment


def render(template: str, values: Mapping[str, object]) -> str:
    """Return a page as HTML."""
    return environment().get_template(template).render(values)


@cache
def static_file(name: str) -> bytes:
    """Return the content of a file that pages load."""
    content = (_FOLDER / "static" / name).read_bytes()
    return css_variables().encode() + content if name == "pages.css" else content


def static_link(name: str) -> str:
    """Return the address of a file; it changes with the content, so browsers may keep it."""
    return f"static/{name}?{sha256(static_file(name)).hexdigest()[:12]}"


def link(path: str, **parameters: object) -> str:
    """Return a relative address; empty parameters are left out."""
    given = {
        name: str(value).encode("utf-8", "surrogatepass")
        for name, value in parameters.items()
        if value not in {None, ""}
    }
    return f"{path}?{urlencode(given)}" if given else path


def span(seconds: float) -> str:
    """Return a duration in words."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} d {hours % 24} h"


def number(value: float) -> str:
    """Return an amount: with three decimals below 1, with one below 100, else a whole number."""
    if abs(value) < 1:
        return f"{round(value, 3):g}"
    if math.isclose(value, round(value)) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:,.1f}"


_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def time_tag(at: float | str, *, with_date: bool = False) -> Markup:
    """Return an instant as UTC; a script shows it in the reader's zone."""
    seconds = parse_time(at) if isinstance(at, str) else at
    ts = format_time(seconds)
    utc = f"{ts[:10]} {ts[11:19]} UTC"
    shown, form = (utc, "date") if with_date else (f"{ts[11:19]} UTC", "clock")
    return Markup('<time datetime="{}" title="{}" data-form="{}">{}</time>').format(
        ts, utc, form, shown
    )


def instant_tag(ts: str) -> Markup:
    """Return a record's instant with its milliseconds; a script shows it in the reader's zone."""
    shown = f"{ts[11:23]} UTC"
    return Markup('<time datetime="{}" title="{}" data-form="instant">{}</time>').format(
        ts, f"{ts[:10]} {shown}", shown
    )


def detail(value: object) -> object:
    """Return a value of an incident's detail for people: instants, lists and pairs."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and _INSTANT.fullmatch(value):
        return time_tag(value, with_date=True)
    if isinstance(value, dict):
        return _join(_pair(name, each) for name, each in value.items())
    if isinstance(value, list | tuple):
        return _join(detail(each) for each in value)
    return "none" if value is None else _finalize(str(value))


def _pair(name: object, value: object) -> Markup:
    return Markup("{} {}").format(str(name), detail(value))


def _join(values: Iterable[object]) -> Markup:
    return Markup(", ").join(Markup("{}").format(value) for value in values) or Markup("none")


def ago_tag(at: float | str, now: float) -> Markup:
    """Return how long ago an instant was; a script counts on."""
    seconds = parse_time(at) if isinstance(at, str) else at
    ts = format_time(seconds)
    shown = f"{_coarse(max(0.0, now - seconds))} ago"
    title = f"{ts[:10]} {ts[11:19]} UTC"
    return Markup('<time datetime="{}" title="{}" data-form="ago">{}</time>').format(
        ts, title, shown
    )


def _coarse(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length or (unit == "min" and seconds >= length):
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"


def _finalize(value: object) -> object:
    """Show characters that cannot be seen, as labels do; markup of our own stays."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return "" if value is None else value
