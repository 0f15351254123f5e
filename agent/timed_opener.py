"""Requests of `urllib.request` with one deadline each; follows redirections as `urlopen` does."""

import ssl
import urllib.request
from http.client import HTTPResponse
from typing import cast

from agent.http_deadline import TimedHttpConnection, TimedHttpsConnection


def open_timed(
    request: urllib.request.Request, timeout_s: float, tls: ssl.SSLContext | None = None
) -> HTTPResponse:
    """Send a request of HTTP or HTTPS; its response has to end ``timeout_s`` later.

    Without ``tls`` the system's certificates are trusted.

    Raises:
        HTTPError: the response is an error.
        OSError: there is none in time.

    """
    opener = urllib.request.build_opener(_TimedHandler, _TimedTlsHandler(context=tls))
    return cast("HTTPResponse", opener.open(request, timeout=timeout_s))


class _TimedHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(TimedHttpConnection, req)


class _TimedTlsHandler(urllib.request.HTTPSHandler):
    _context: ssl.SSLContext

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(TimedHttpsConnection, req, context=self._context)
