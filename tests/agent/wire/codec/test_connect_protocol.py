"""Connect's embedded assignment: additions, revocations, and failures."""

import struct

import pytest

from agent.errors import DecodeError
from agent.wire.codec.connect_protocol import ConnectAssignment, read_assignment
from tests.agent.wire.frames import JOIN_GROUP
from tests.agent.wire.talk import Talk, Wire, got

Tasks = dict[str, list[int]]
SESSIONED, COMPATIBLE, EAGER = 2, 1, 0


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


OF_KAFKA_4_3 = bytes.fromhex(
    "0000 000477312d61 0015687474703a2f2f31302e302e302e313a383038332f 000000000000000c 00000001"
    "000473696e6b 00000002 ffffffff 00000000 00000001 0006736f75726365 00000001 00000001 00000000"
)
"""What its IncrementalCooperativeConnectProtocol.serializeAssignment wrote behind the version."""


def tasks(connectors: Tasks) -> bytes:
    rows = (
        text(name) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for name, numbers in connectors.items()
    )
    return struct.pack(">i", len(connectors)) + b"".join(rows)


def assignment(
    given: Tasks,
    revoked: Tasks | None = None,
    *,
    version: int = SESSIONED,
    error: int = 0,
    offset: int = 12,
    delay_ms: int = 0,
) -> bytes:
    """Return the bytes of IncrementalCooperativeConnectProtocol.serializeAssignment."""
    out = struct.pack(">hh", version, error) + text("w1-a") + text("http://10.0.0.1:8083/")
    out += struct.pack(">q", offset) + tasks(given)
    if version == EAGER:
        return out
    rest = struct.pack(">i", -1) if revoked is None else tasks(revoked)
    return out + rest + struct.pack(">i", delay_ms)


@pytest.fixture
def talk() -> Talk:
    """Return a worker with a response to its JoinGroup."""
    talk = Wire().connect("w1")
    talk.ask(JOIN_GROUP, 9, group_id="g", member_id="m1-a", protocol_type="connect")
    talk.joined(protocol="sessioned")
    return talk


def synced(talk: Talk, given: bytes) -> list[tuple[str, int]]:
    talk.sync()
    return got(talk.tell(assignment=given))


@pytest.mark.parametrize("version", [COMPATIBLE, SESSIONED])
def test_the_bytes_are_those_of_kafka(version: int) -> None:
    data = assignment({"sink": [-1, 0]}, {"source": [1]}, version=version)

    assert data == struct.pack(">h", version) + OF_KAFKA_4_3


@pytest.mark.parametrize("version", [COMPATIBLE, SESSIONED, 3])
def test_what_is_given_and_what_is_revoked(version: int) -> None:
    data = assignment({"sink": [-1, 0]}, {"source": [1]}, version=version)

    assert read_assignment(data) == ConnectAssignment(
        error=0,
        leader="w1-a",
        config_offset=12,
        assigned=frozenset({"sink", "sink-0"}),
        revoked=frozenset({"source-1"}),
    )


def test_the_eager_protocol_revokes_nothing_by_name() -> None:
    read = read_assignment(assignment({"sink": [0]}, version=EAGER))

    assert (read.assigned, read.revoked) == (frozenset({"sink-0"}), frozenset())


@pytest.mark.parametrize("size", range(60))
def test_a_cut_assignment_is_a_decode_error(size: int) -> None:
    data = assignment({"sink": [-1, 0]}, {"source": [1]})

    with pytest.raises(DecodeError):
        read_assignment(data[:size])


def test_a_worker_that_must_give_tasks_up_rejoins_at_once(talk: Talk) -> None:
    talk.sync()
    (signal,) = talk.tell(assignment=assignment({}, {"source": [-1, 1]}))

    assert signal.follow_up is not None
    assert signal.follow_up.status == 10
    assert signal.follow_up.reason == "tasks to revoke: source, source-1"


def test_a_worker_that_keeps_what_it_has_is_settled(talk: Talk) -> None:
    talk.sync()
    (signal,) = talk.tell(assignment=assignment({"sink": [0]}))

    assert (signal.kind, signal.follow_up) == ("sync", None)


def test_a_failed_assignment_ends_nothing(talk: Talk) -> None:
    talk.sync()
    (signal,) = talk.tell(assignment=assignment({}, error=1))

    assert (signal.kind, signal.status) == ("raise", 9)
    assert signal.reason == "assignment failed: CONFIG_MISMATCH at config offset 12 of w1-a"


@pytest.mark.parametrize("odd", [b"", b"\0\1\0"])
def test_odd_bytes_are_counted_and_the_round_ends(talk: Talk, odd: bytes) -> None:
    assert synced(talk, odd) == [("sync", 0)]
    assert talk.wire.interpreter.counts == {"connect_assignment": 1}


@pytest.mark.parametrize(
    ("offset", "delay_ms", "reason"),
    [
        (15, 0, "newer Connect configuration: offset 15, 12 before"),
        (12, 0, None),
        (
            15,
            4_000,
            None,
        ),  # tasks have waited for a worker that left; the key was renewed meanwhile
    ],
)
def test_newer_configuration_is_why_a_worker_joins(
    talk: Talk, offset: int, delay_ms: int, reason: str | None
) -> None:
    talk.sync()
    talk.tell(assignment=assignment({"sink": [0]}, delay_ms=delay_ms))
    talk.wire.at += 4.0 - 1.0
    talk.ask(JOIN_GROUP, 9, group_id="g", member_id="m1-a", protocol_type="connect")
    talk.joined(protocol="sessioned", generation=2)
    talk.sync(generation=2)
    (signal,) = talk.tell(assignment=assignment({"sink": [0]}, offset=offset))

    assert (signal.kind, signal.reason) == ("sync", reason)
