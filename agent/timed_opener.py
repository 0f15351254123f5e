"""Requests of `urllib.request` with one deadline each, their redirections included.

A GET is redirected to another address of HTTP or HTTPS, as `urlopen` does it. A POST is not: it
would arrive as a GET, and with the secret in its headers. The body of a redirection is not read:
`urlopen` reads it whole, and took gigabytes of one without an end.
"""

import io
import ssl
import time
import urllib.request
import urllib.response
from http.client import HTTPMessage, HTTPResponse
from typing import IO, Any, cast

from agent.http_deadline import TimedHttpConnection, TimedHttpsConnection


def open_timed(
    request: urllib.request.Request, timeout_s: float, tls: ssl.SSLContext | None = None
) -> HTTPResponse:
    """Send a request of HTTP or HTTPS; its response has to end ``timeout_s`` later.

    Without ``tls`` the system's certificates are trusted.

    Raises:
        HTTPError: the response is an error, or a redirection that is not followed.
        OSError: there is none in time.

    """
    redirection = _TimedRedirection(time.monotonic() + timeout_s)
    handlers = (redirection, _TimedHandler, _TimedTlsHandler(context=tls))
    opener = urllib.request.build_opener(*handlers)
    return cast("HTTPResponse", opener.open(request, timeout=timeout_s))


class _TimedRedirection(urllib.request.HTTPRedirectHandler):
    """All redirections of one request end at ``end_at``, of the monotonic clock."""

    def __init__(self, end_at: float) -> None:
        self._end_at = end_at

    def http_error_302(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any
    ) -> Any:
        fp.close()
        left_s = self._end_at - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        req.timeout = left_s
        empty = urllib.response.addinfourl(io.BytesIO(), headers, req.full_url, code)
        return super().http_error_302(req, empty, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(  # noqa: PLR0913 - as in urllib
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the next request; None: the redirection is an error."""
        if req.data is not None or not newurl.startswith(("http://", "https://")):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _TimedHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(TimedHttpConnection, req)


class _TimedTlsHandler(urllib.request.HTTPSHandler):
    _context: ssl.SSLContext

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(TimedHttpsConnection, req, context=self._context)
