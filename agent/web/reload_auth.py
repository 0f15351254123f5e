"""Authorisation of requests that change something: ``/-/reload``, and annotations; others read.

Pushes and events have tokens of their own (`agent.hub.push_receiver`,
`agent.sources.http_events.source`). A reload and an annotation need a user of ``web.config_file``,
or the token of ``web.token_file``.
"""

import hmac
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from agent.small_files import read_bytes
from agent.web.same_origin import is_foreign

RELOAD = "/-/reload"
ANNOTATIONS = "/api/v1/annotations"
USER = "rebalance_agent.user"
"""Key of the request's scope: a user of the web configuration is authenticated."""
_CHALLENGE = {"WWW-Authenticate": "Bearer"}
_MAX_TOKEN_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ReloadPolicy:
    """The rule for ``/-/reload`` and annotations."""

    token_file: Path | None = None

    def has_own_token(self, path: str) -> bool:
        """Whether a path requires the token, and no user."""
        return path in {RELOAD, ANNOTATIONS} and self.token_file is not None

    def refusal(self, request: Request) -> Response | None:
        """Return the response to an unauthorised request, else None."""
        if self.token_file is None:
            if request.scope.get(USER) and not is_foreign(request):  # browsers keep passwords
                return None
            signal = "SIGHUP, or " if request.url.path == RELOAD else ""
            wanted = f"wanted {signal}web.token_file or users in the configuration"
            return PlainTextResponse(f"reading only: {wanted}\n", 403)
        try:
            # each time: it may have changed
            token = read_bytes(self.token_file, _MAX_TOKEN_BYTES, wait_s=0).strip()
        except OSError as error:
            return PlainTextResponse(f"web.token_file: {error.strerror}\n", 500)
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(shown.strip().encode(), token)
        if token and scheme.lower() == "bearer" and is_right:
            return None
        return PlainTextResponse("wanted Authorization: Bearer TOKEN\n", 401, _CHALLENGE)
