"""Bounds of brokers' responses to the admin client."""

import struct

import pytest

from agent.errors import DecodeError
from agent.inspection import admin_requests
from agent.inspection.admin_requests import Api, decode
from tests.agent.wire.frames import answer


def test_a_response_of_too_many_elements_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = tuple({"group_id": f"g{number}", "protocol_type": "consumer"} for number in range(50))
    frame = answer(Api.LIST_GROUPS, 4, 1, groups=groups)[struct.calcsize(">i") :]
    assert len(decode(Api.LIST_GROUPS, 4, frame)["groups"]) == 50

    monkeypatch.setattr(admin_requests, "ELEMENT_LIMIT", 49)

    with pytest.raises(DecodeError, match="an array of 50 in"):
        decode(Api.LIST_GROUPS, 4, frame)
