"""A transport of requests with limits on each response, in bytes and in time."""

from collections.abc import Callable
from typing import Any

from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from requests.exceptions import RequestException
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

from agent.http_deadline import TimedHttpConnection

RESPONSE_BYTES_MAX = 1 << 16
"""A receiver's response has some bytes, and an error some KiB of text."""
_REDIRECTIONS = range(300, 400)
_SHOWN_CHARS = 200
"""Of an address that a receiver names, in the log."""


class _ReceiverConnection(TimedHttpConnection, HTTPConnection):
    pass


class _ReceiverTlsConnection(TimedHttpConnection, HTTPSConnection):
    pass


class _ReceiverPool(HTTPConnectionPool):
    ConnectionCls = _ReceiverConnection  # type: ignore[assignment]


class _ReceiverTlsPool(HTTPSConnectionPool):
    ConnectionCls = _ReceiverTlsConnection  # type: ignore[assignment]


class BoundedAdapter(HTTPAdapter):
    """Reads the beginning of a response, and ends the connection of a longer one."""

    fault = ""
    """The last response's status or error, if it was no success."""

    def __init__(self, note_success: Callable[[bytes], None]) -> None:
        """``note_success`` gets the beginning of each response that is a success."""
        super().__init__()
        self._note_success = note_success

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Use connections with deadlines."""
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _ReceiverPool, "https": _ReceiverTlsPool}

    def send(self, request: PreparedRequest, **options: Any) -> Response:  # type: ignore[override]
        """Return the response; its status matters, so a part of its text is enough.

        Raises:
            RequestException: there is none, or it is a redirection. The SDK follows none, and takes
                it for a success.

        """
        try:
            response = super().send(request, **options)
        except RequestException as error:
            self.fault = str(error)
            raise
        self.fault = "" if response.ok else f"{response.status_code} {response.reason}"
        if response.status_code in _REDIRECTIONS:
            response.close()
            raise RequestException(_redirection_text(response))
        try:
            body = response.raw.read(RESPONSE_BYTES_MAX, decode_content=True)
        except HTTPError:
            body = b""
        if len(body) == RESPONSE_BYTES_MAX:
            response.raw.close()
        response._content, response._content_consumed = body, True  # noqa: SLF001 - no public way
        if response.ok:
            self._note_success(body)
        return response


def _redirection_text(response: Response) -> str:
    where = response.headers.get("location", "").partition("?")[0]  # a query may hold a secret
    target = f" to {where[:_SHOWN_CHARS]!r}" if where else ""
    return f"{response.status_code} {response.reason}: a redirection{target} is not followed"
