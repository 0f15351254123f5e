"""Asking a running agent or hub: `agent.api` from the other side."""

import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import msgspec

from agent.errors import RecordsError

DEFAULT_URL = "http://localhost:12472"
_TIMEOUT_S = 10.0


def ask(url: str, what: str, answer_type: Any = Any, **query: object) -> Any:
    """Return an agent's answer about ``groups``, ``members``, ``episodes`` or ``explain``.

    Raises:
        RecordsError: nobody answers there, or with a complaint.

    """
    text = urllib.parse.urlencode({k: v for k, v in query.items() if v is not None})
    asked = f"{url.rstrip('/')}/api/v1/{what}?{text}"
    if not asked.startswith(("http://", "https://")):
        raise RecordsError(f"{url}: wanted an address such as {DEFAULT_URL}")
    try:
        with urllib.request.urlopen(asked, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - http(s)
            return msgspec.json.decode(answer.read(), type=answer_type)
    except urllib.error.HTTPError as error:
        raise RecordsError(f"{url}: {_complaint(error)}") from error
    except (OSError, msgspec.MsgspecError, ValueError) as error:
        raise RecordsError(f"{url}: {error}; wanted a running agent or hub") from error


def _complaint(error: urllib.error.HTTPError) -> str:
    try:
        return str(msgspec.json.decode(error.read())["error"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return f"{error.code} {error.reason}"
