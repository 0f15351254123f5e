"""A transport of requests whose responses have a bound: the receiver may send without end."""

from typing import Any

from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

RESPONSE_BYTES_MAX = 1 << 16
"""A receiver's response has some bytes, and an error some KiB of text."""


class BoundedAdapter(HTTPAdapter):
    """Reads the beginning of a response, and ends the connection of a longer one."""

    def send(self, request: PreparedRequest, **options: Any) -> Response:  # type: ignore[override]
        """Return the response; only its status matters, so a part of its text is enough."""
        response = super().send(request, **options)
        try:
            body = response.raw.read(RESPONSE_BYTES_MAX, decode_content=True)
        except HTTPError:
            body = b""
        if len(body) == RESPONSE_BYTES_MAX:
            response.raw.close()
        response._content, response._content_consumed = body, True  # noqa: SLF001 - no public way
        return response
