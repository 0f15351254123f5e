"""Bounds of brokers' responses to the admin client."""

import asyncio
import struct
import threading

import pytest

from agent.errors import DecodeError
from agent.inspection.connection import broker_connection
from agent.inspection.connection.admin_requests import STRUCT_WEIGHT, Api, decode
from agent.inspection.connection.broker_connection import BrokerResponse
from tests.agent.wire.frames import answer


def test_a_response_of_too_many_elements_is_refused() -> None:
    groups = tuple({"group_id": f"g{number}", "protocol_type": "consumer"} for number in range(50))
    frame = answer(Api.LIST_GROUPS, 4, 1, groups=groups)[struct.calcsize(">i") :]
    limit = 50 * STRUCT_WEIGHT
    assert len(decode(Api.LIST_GROUPS, 4, frame, limit)["groups"]) == 50

    with pytest.raises(DecodeError, match="an array of 50 in"):
        decode(Api.LIST_GROUPS, 4, frame, limit - 1)


def test_a_structure_costs_more_than_a_number() -> None:
    """2,000,000 listed groups took 735 MB and, beside the proxy, 17 s."""
    groups = tuple({"group_id": "", "protocol_type": ""} for _ in range(9))
    frame = answer(Api.LIST_GROUPS, 4, 1, groups=groups)[struct.calcsize(">i") :]

    with pytest.raises(DecodeError, match="an array of 9 in"):
        decode(Api.LIST_GROUPS, 4, frame, 9 * 2)


@pytest.mark.parametrize("is_long", [False, True])
def test_a_long_response_is_decoded_beside_the_event_loop(
    is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[int]()
    frame = answer(Api.LIST_GROUPS, 4, 1)[struct.calcsize(">i") :]
    monkeypatch.setattr(broker_connection, "SHORT_BYTES", len(frame) - is_long)
    response = BrokerResponse("broker:1", Api.LIST_GROUPS, 4, frame, 100)

    asyncio.run(response.decode(lambda _: threads.append(threading.get_ident())))

    assert [each != threading.get_ident() for each in threads] == [is_long]


def test_a_null_that_the_schema_does_not_have_is_refused() -> None:
    """Kafka's own readers refuse it, too; each reader of the field expects a value."""
    head = struct.pack(">iih", 1, 0, 0)
    group = struct.pack(">h1s", 1, b"g")
    null, consumer = struct.pack(">h", -1), struct.pack(">h8s", 8, b"consumer")
    one, none = struct.pack(">i", 1), struct.pack(">i", -1)

    named = decode(Api.LIST_GROUPS, 2, head + one + group + consumer, 100)
    assert named["groups"] == [{"group_id": "g", "protocol_type": "consumer"}]
    for body in (one + null + consumer, one + group + null, none):
        with pytest.raises(DecodeError, match=" is null"):
            decode(Api.LIST_GROUPS, 2, head + body, 100)
