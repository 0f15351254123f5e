"""Bounds in bytes: names, open requests, incomplete frames and partitions of hostile peers."""

import struct
import tracemalloc
from collections import Counter

import msgspec
import pytest
from kio.index import KioIndexError
from msgspec import to_builtins

from agent.wire.codec.apis import APIS, VERSION_MAX
from agent.wire.codec.correlation import RequestBudget
from agent.wire.codec.messages import HostPort
from agent.wire.connection import ConnectionDecoder, FrameBudget
from agent.wire.members.group_decoder import GroupDecoder
from agent.wire.members.member import WireMember
from metrics.model.signals import Signal
from tests.agent.wire.frames import HEARTBEAT, JOIN_GROUP, answer, request
from tests.agent.wire.longest import TEXT_CHARS, longest_values
from tests.agent.wire.talk import Wire

LONG = 32_000
CONSUMER_GROUP_HEARTBEAT = 68


def longest_text(signals: list[Signal]) -> int:
    """Return the length of the longest text in signals."""
    return max(_lengths(msgspec.to_builtins(signals)))


def _lengths(value: object) -> list[int]:
    match value:
        case str():
            return [len(value)]
        case dict():
            return [n for each in value.values() for n in _lengths(each)]
        case list():
            return [n for each in value for n in _lengths(each)]
    return [0]


def test_each_name_of_a_classic_member_is_clipped_and_counted() -> None:
    wire = Wire()
    talk = wire.connect("c" * LONG)
    names = {"group_id": "g" * LONG, "member_id": "m" * LONG, "group_instance_id": "i" * LONG}
    protocols = ({"name": "p" * LONG, "metadata": b"\0\1\0\0\0\0\0\0\0\0"},)

    signals = talk.ask(
        JOIN_GROUP, 9, protocol_type="t" * LONG, protocols=protocols, reason="r" * LONG, **names
    )
    signals += talk.joined("n" * LONG, protocol="p" * LONG, leader="l" * LONG)

    assert 250 < longest_text(signals) <= 255
    assert wire.counts["name_clipped"] > 5
    [member] = talk.members()
    assert len(member.identity.leader or "") == 255


def test_each_name_of_a_member_of_the_new_protocol_is_clipped() -> None:
    talk = Wire().connect("c" * LONG)

    signals = talk.ask(
        CONSUMER_GROUP_HEARTBEAT,
        0,
        group_id="g" * LONG,
        member_id="m" * LONG,
        instance_id="i" * LONG,
        subscribed_topic_names=("t" * LONG,),
    )

    assert 250 < longest_text(signals) <= 255


def test_long_names_with_one_beginning_are_two_members() -> None:
    wire = Wire()
    for last in "ab":
        wire.connect("c" * LONG + last).heartbeat(f"m-{last}")

    assert len(wire.interpreter.registry.list_connected_origins()) == 2
    keys = {key.client_id for key in wire.interpreter.registry._by_key}
    assert len(keys) == 2


def test_a_reason_of_many_partitions_is_clipped() -> None:
    talk = Wire().connect()
    owned = {f"topic-{n}": [0, 1, 2] for n in range(1_000)}
    talk.join(owned=owned, protocol="cooperative-sticky")
    talk.joined(protocol="cooperative-sticky")
    talk.sync()

    signals = talk.synced({})

    [signal] = [each for each in signals if each.follow_up is not None]
    assert signal.follow_up is not None
    assert len(signal.follow_up.reason or "") <= 255


def test_open_requests_keep_no_content() -> None:
    """A broker that never responds: 500 joins with 60 KiB of metadata, on one connection."""
    wire = Wire()
    talk = wire.connect("c")
    talk.join()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()

    for number in range(500):
        frame = request(
            JOIN_GROUP,
            9,
            number + 2,
            "c",
            group_id="g",
            member_id="m",
            protocol_type="consumer",
            protocols=({"name": "range", "metadata": bytes(60_000)},),
        )
        for event in talk.connection.feed_client(frame, 1.0):
            wire.interpreter.decode(event)

    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 1 << 20


def test_incomplete_frames_of_all_connections_share_a_bound() -> None:
    counts = Counter[str]()
    budget = FrameBudget(limit_bytes=1 << 20)
    decoders = [
        ConnectionDecoder(
            client=HostPort("10.0.0.1", port),
            server=HostPort("10.0.0.9", 9092),
            counts=counts,
            budget=budget,
        )
        for port in range(100)
    ]
    head = struct.pack(">ihhih", 4 << 20, JOIN_GROUP, 9, 1, 1) + b"c"

    for decoder in decoders:
        decoder.feed_client(head + bytes(100_000), 0.0)

    assert budget.used_bytes <= budget.limit_bytes
    assert counts["opaque_memory"] == 90
    for decoder in decoders:
        decoder.close()
    assert budget.used_bytes == 0


def _decoders(number: int, budget: FrameBudget, counts: Counter[str]) -> list[ConnectionDecoder]:
    return [
        ConnectionDecoder(
            client=HostPort("10.0.0.1", port),
            server=HostPort("10.0.0.9", 9092),
            counts=counts,
            budget=budget,
        )
        for port in range(number)
    ]


def test_halves_of_short_frames_share_the_bound_and_a_bystander_is_read() -> None:
    counts, budget = Counter[str](), FrameBudget(limit_bytes=1 << 20)
    *hostile, bystander = _decoders(101, budget, counts)
    head = struct.pack(">ihhih", 4 << 20, JOIN_GROUP, 9, 1, 1) + b"c"

    for decoder in hostile:
        decoder.feed_client(head + bytes(60_000), 0.0)

    assert budget.used_bytes <= budget.limit_bytes * 3 // 2 + 60_000
    asked = request(HEARTBEAT, 4, 1, "c", group_id="g", generation_id=1, member_id="m")
    assert bystander.feed_client(asked[:20], 1.0) == []
    assert len(bystander.feed_client(asked[20:], 1.0)) == 1
    for decoder in hostile:
        decoder.close()
    assert budget.used_bytes == 0


def test_open_requests_of_all_connections_share_a_bound() -> None:
    counts, budget = Counter[str](), FrameBudget(requests=RequestBudget(limit=1_000))
    *hostile, bystander = _decoders(101, budget, counts)

    for number in range(200):
        asked = request(HEARTBEAT, 4, number, "c", group_id="g", generation_id=1, member_id="m")
        for decoder in hostile:
            decoder.feed_client(asked, 0.0)

    assert budget.requests.used <= 1_000 + 100 * 8
    asked = request(HEARTBEAT, 4, 7, "c", group_id="g", generation_id=1, member_id="m")
    bystander.feed_client(asked, 1.0)
    assert len(bystander.feed_broker(answer(HEARTBEAT, 4, 7, error_code=0), 1.0)) == 1
    for decoder in (*hostile, bystander):
        decoder.close()
    assert budget.requests.used == 0


def test_partitions_of_all_members_are_bounded() -> None:
    wire = Wire(interpreter=GroupDecoder())
    wire.interpreter.registry.partitions_max = 1_000
    for number in range(20):
        talk = wire.connect(f"c{number}")
        talk.join(f"m{number}", owned={"t": [*range(100)]})

    kept = [member.count_partitions() for member in wire.interpreter.registry._by_key.values()]
    assert sum(kept) <= 1_000
    assert wire.interpreter.counts["partitions_forgotten"] == 10


@pytest.mark.parametrize("api_key", sorted(APIS))
def test_every_field_of_every_version_at_its_longest(api_key: int) -> None:
    """A hostile client and a hostile broker: of their texts, only names of 255 characters stay."""
    wire, texts, messages = Wire(), list[int](), 0
    talk = wire.connect("c" * TEXT_CHARS)
    with_group = wire.connect("c" * TEXT_CHARS)
    for version in range(VERSION_MAX + 1):
        try:
            asked = longest_values(api_key, version, is_request=True)
            got = longest_values(api_key, version, is_request=False)
        except KioIndexError:
            continue
        for each in (talk, with_group):
            signals = each.ask(api_key, version, **asked) + each.tell(**got)
            texts += [length for signal in signals for length in _lengths(to_builtins(signal))]
            messages += 2

    assert messages > 0
    assert max(texts, default=0) <= 255
    assert wire.counts["name_clipped"] > 0
    held = [length for each in talk.members() for length in _held_lengths(each)]
    assert max(held, default=0) <= 255


def _held_lengths(member: WireMember) -> list[int]:
    return _lengths(to_builtins(member.identity))
