"""Each answer with addresses, in every version, against kio's writing of it with other ones."""

import struct
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import DecodeError
from agent.wire.proxying.address_patch import TruncatedError
from agent.wire.proxying.address_rewriter import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    FETCH,
    FIND_COORDINATOR,
    METADATA,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    has_addresses,
    rewrite,
)
from tests.agent.wire import frames

ROUTES = {("b1", 9092): ("127.0.0.1", 19093), ("kafka-2.example", 9093): ("::1", 19094)}
UNKNOWN = ("b3", 9092)
VERSIONS = {
    PRODUCE: range(10, 14),
    METADATA: range(14),
    FIND_COORDINATOR: range(7),
    DESCRIBE_CLUSTER: range(3),
    SHARE_FETCH: range(1, 3),
    SHARE_ACKNOWLEDGE: range(1, 3),
}
EVERY = [(api_key, version) for api_key, versions in VERSIONS.items() for version in versions]


def _route(host: str, port: int) -> tuple[str, int] | None:
    return ROUTES.get((host, port))


def _nodes(addresses: list[tuple[str, int]], **rest: Any) -> list[dict[str, Any]]:
    return [
        {"node_id": number, "broker_id": number, "host": host, "port": port, "rack": "r"} | rest
        for number, (host, port) in enumerate(addresses)
    ]


def _answer(api_key: int, version: int, addresses: list[tuple[str, int]]) -> bytes:
    """Return an answer without its length."""
    nodes = _nodes(addresses, error_message="m", key="k")
    values: dict[int, dict[str, Any]] = {
        PRODUCE: {"responses": [_produced()], "node_endpoints": nodes},
        METADATA: {"brokers": nodes, "cluster_id": "c", "topics": []},
        FIND_COORDINATOR: {"coordinators": nodes, "error_message": None, **nodes[0]},
        DESCRIBE_CLUSTER: {"brokers": nodes, "cluster_id": "c", "error_message": "m"},
        SHARE_FETCH: {"responses": [_shared()] * 2, "node_endpoints": nodes},
        SHARE_ACKNOWLEDGE: {"responses": [_shared()] * 2, "node_endpoints": nodes},
    }
    return frames.answer(api_key, version, 7, **values[api_key])[4:]


def _produced() -> dict[str, Any]:
    errors = [{"batch_index": 1, "batch_index_error_message": "bad"}]
    leader = {"leader_id": 2, "leader_epoch": 3}
    part = {"index": 1, "record_errors": errors, "error_message": "m", "current_leader": leader}
    return {"name": "topic", "partition_responses": [part, part]}


def _shared() -> dict[str, Any]:
    acquired = {"first_offset": 1, "last_offset": 2, "delivery_count": 1}
    names = {"error_message": "m", "acknowledge_error_message": None}
    part = {"partition_index": 1, "records": b"r" * 200, "acquired_records": [acquired] * 2}
    return {"topic_id": uuid.UUID(int=7), "partitions": [part | names] * 2}


def _rewritten(api_key: int, version: int, data: bytes) -> bytes:
    head, consumed = rewrite(api_key, version, data, _route)
    return head + data[consumed:]


@pytest.mark.parametrize(("api_key", "version"), EVERY)
def test_only_addresses_change(api_key: int, version: int) -> None:
    data = _answer(api_key, version, [*ROUTES, UNKNOWN])

    rewritten = _rewritten(api_key, version, data)

    assert has_addresses(api_key, version)
    assert rewritten == _answer(api_key, version, [*ROUTES.values(), UNKNOWN])


@pytest.mark.parametrize(("api_key", "version"), EVERY)
def test_any_start_of_an_answer_is_truncated_or_enough(api_key: int, version: int) -> None:
    data = _answer(api_key, version, list(ROUTES))
    head, consumed = rewrite(api_key, version, data, _route)

    for size in range(consumed):
        with pytest.raises(TruncatedError):
            rewrite(api_key, version, data[:size], _route)

    assert rewrite(api_key, version, data[:consumed], _route) == (head, consumed)


@pytest.mark.parametrize(("api_key", "version"), EVERY)
def test_an_answer_without_a_node_stays(api_key: int, version: int) -> None:
    data = _answer(api_key, version, [("", -1)])

    assert _rewritten(api_key, version, data) == data


@given(st.sampled_from([*EVERY, (API_VERSIONS, 0), (API_VERSIONS, 4)]), st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(known: tuple[int, int], data: bytes) -> None:
    try:
        _, consumed = rewrite(*known, data, _route)
    except DecodeError:
        return
    assert consumed <= len(data)


def test_a_count_of_two_billion_costs_nothing() -> None:
    with pytest.raises(TruncatedError):
        rewrite(METADATA, 0, struct.pack(">ii", 7, 2**31 - 1) + b"\0" * 100, _route)


@pytest.mark.parametrize("version", range(7))  # KIP-1242: 5 in Kafka 4.4; later ones alike
def test_versions_with_unread_addresses_are_not_offered(version: int) -> None:
    def answer(fetch: int, metadata: int) -> bytes:
        ranges = [(FETCH, 4, fetch), (METADATA, 0, metadata), (12, 0, 99)]
        return _api_versions(version, 0, ranges)

    assert _rewritten(API_VERSIONS, version, answer(18, 14)) == answer(15, 13)
    assert _rewritten(API_VERSIONS, version, answer(11, 12)) == answer(11, 12)


def test_a_broker_that_knows_no_older_version_is_left_alone() -> None:
    data = _api_versions(4, 0, [(FETCH, 16, 18)])

    assert _rewritten(API_VERSIONS, 4, data) == _api_versions(4, 0, [(FETCH, 16, 16)])


def test_the_refusal_of_an_api_versions_request_stays() -> None:
    """The broker responds in version 0 to an unknown version (KIP-511)."""
    data = _api_versions(0, 35, [(API_VERSIONS, 0, 4)])

    assert _rewritten(API_VERSIONS, 4, data) == data


def _api_versions(version: int, error: int, ranges: list[tuple[int, int, int]]) -> bytes:
    """Return a response; its header has no tagged fields, even if the version is flexible."""
    names = ("api_key", "min_version", "max_version")
    keys = [dict(zip(names, each, strict=True)) for each in ranges]
    written = min(version, 4)  # kio knows no later one, which has the same answer
    frame = frames.answer(API_VERSIONS, written, 7, error_code=error, api_keys=keys)
    return frame[4:8] + frame[9:] if version >= 3 else frame[4:]
