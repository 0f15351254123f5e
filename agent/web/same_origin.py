"""Requests that a page of another site made a browser send.

A browser adds ``Origin`` or ``Sec-Fetch-Site`` to them, and sends no JSON without a question that
the agent does not answer. Other programs add neither.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.requests import Request

_OWN_SITES = {"same-origin", "none"}
_JSON = {"application/json", "application/x-ndjson"}


def is_foreign(request: Request) -> bool:
    """Return whether a page of another site sends it."""
    headers = request.headers
    if headers.get("sec-fetch-site", "none") not in _OWN_SITES:
        return True
    origin = headers.get("origin")
    if origin is None:
        return False
    host = headers.get("host", "")
    return origin not in {f"http://{host}", f"https://{host}"}


def is_rebound(request: Request) -> bool:
    """Return whether a browser reaches the agent by a name: it may be another site's own name."""
    return "origin" in request.headers and not _is_address(request.headers.get("host", ""))


def is_json(request: Request) -> bool:
    """Return whether the body is JSON by its type, or has none."""
    content_type = request.headers.get("content-type", "application/json")
    return content_type.partition(";")[0].strip().lower() in _JSON


def is_forwarded(request: Request) -> bool:
    """Return whether another server passes it on: its sender is not on this machine."""
    return "x-forwarded-for" in request.headers or "forwarded" in request.headers


def _is_address(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        if name != "localhost":
            ip_address(name)
    except ValueError:
        return False
    return True
