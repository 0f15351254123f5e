"""A browser keeps a user's password: a page of another site cannot use it to change something."""

import pytest
from starlette.requests import Request

from agent.web.reload_auth import ANNOTATIONS, RELOAD, USER, ReloadPolicy


@pytest.mark.parametrize("path", [RELOAD, ANNOTATIONS])
@pytest.mark.parametrize(
    ("headers", "is_refused"),
    [
        ({}, False),
        ({"origin": "http://127.0.0.1:1", "host": "127.0.0.1:1"}, False),
        ({"origin": "https://own.example", "host": "own.example"}, False),
        ({"origin": "http://other.example", "host": "127.0.0.1:1"}, True),
        ({"sec-fetch-site": "cross-site"}, True),
    ],
)
def test_a_page_of_another_site_is_refused(
    path: str, headers: dict[str, str], is_refused: bool
) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    request = Request({"type": "http", "path": path, "headers": raw, USER: "a"})

    assert (ReloadPolicy().refusal(request) is not None) == is_refused
