"""Captures: every format, whole or cut, as files and on stdin."""

import gzip
import io
import json
import os
import struct
import subprocess
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from agent.cli import main
from agent.errors import SourceError
from agent.sources.capture.magic_numbers import is_capture
from agent.sources.capture.pcap_file import Packet, packets, signals
from agent.wire.connection import DecodedRequest, Event
from agent.wire.members.group_decoder import GroupDecoder
from metrics.model.signals import Signal, SignalKind
from tests.agent.wire.captures import CODES, Timed, dialogue, ethernet, packet

ETHERNET, RAW = 1, 101


def pcap(timed: list[Timed], order: str = "<", *, nanoseconds: bool = False) -> bytes:
    magic, unit = (0xA1B23C4D, 1e9) if nanoseconds else (0xA1B2C3D4, 1e6)
    out = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65_535, ETHERNET)
    for at, segment in timed:
        data, fraction = ethernet(segment), round(at % 1 * unit)
        out += struct.pack(f"{order}IIII", int(at), fraction, len(data), len(data)) + data
    return out


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + size + body + size


def pcapng(timed: list[Timed], order: str = "<") -> bytes:
    """Return a section with two interfaces: Ethernet in nanoseconds, raw IP in microseconds."""
    section = struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1)
    option = struct.pack(f"{order}HHB3x", 9, 1, 9) + struct.pack(f"{order}HH", 0, 0)
    out = block(order, 0x0A0D0D0A, section)
    out += block(order, 1, struct.pack(f"{order}HHI", ETHERNET, 0, 0) + option)
    out += block(order, 1, struct.pack(f"{order}HHI", RAW, 0, 0))
    out += block(order, 5, b"statistics")
    for number, (at, segment) in enumerate(timed):
        data = packet(segment) if number % 2 else ethernet(segment)
        stamp = round(at * (1e6 if number % 2 else 1e9))
        head = struct.pack(
            f"{order}IIIII", number % 2, stamp >> 32, stamp & 0xFFFFFFFF, len(data), len(data)
        )
        out += block(order, 6, head + data)
    return out


@pytest.fixture(scope="module")
def timed() -> list[Timed]:
    return dialogue().segments


def write(folder: Path, data: bytes, name: str = "in.pcap") -> str:
    (folder / name).write_bytes(data)
    return str(folder / name)


def replayed(*paths: str, stdin: bytes | None = None) -> list[int | None]:
    result = CliRunner().invoke(main, ["replay", "--source", "pcap", *paths], input=stdin)
    assert result.exit_code == 0, result.output
    return [json.loads(line)["to"] for line in result.stdout.splitlines()]


def _signals(path: str, counts: Counter[str], cluster: str = "") -> list[Signal]:
    return [each for each in signals([path], cluster, counts) if isinstance(each, Signal)]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("zipped", [False, True])
def test_every_format_tells_the_same(
    tmp_path: Path, timed: list[Timed], order: str, zipped: bool
) -> None:
    for data in (pcap(timed, order), pcap(timed, order, nanoseconds=True), pcapng(timed, order)):
        path = write(tmp_path, gzip.compress(data) if zipped else data)

        assert replayed(path) == CODES


def test_times_are_those_of_the_packets(tmp_path: Path, timed: list[Timed]) -> None:
    for data in (pcap(timed), pcap(timed, nanoseconds=True), pcapng(timed)):
        read = [each.at for each in packets(write(tmp_path, data))]

        assert read == pytest.approx([at for at, _ in timed], abs=1e-6)


def test_stdin_is_a_file_too(timed: list[Timed]) -> None:
    assert replayed("-", stdin=pcap(timed)) == CODES
    assert replayed("-", stdin=gzip.compress(pcapng(timed))) == CODES


@pytest.mark.process
def test_stdin_is_read_as_it_comes(timed: list[Timed]) -> None:
    """As from `tcpdump -U -w -`: signals are printed while the reader waits for more packets."""
    command = [sys.executable, "-P", "-m", "agent", "replay", "--source", "pcap", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        later = (timed[-1][0] + 11.0, timed[-1][1])  # what several sources tell may meet for 10 s
        process.stdin.write(pcap([*timed, later]))
        process.stdin.flush()
        got = [json.loads(process.stdout.readline())["to"] for _ in CODES]
        assert process.poll() is None
        process.stdin.close()
        assert (got, process.stdout.read(), process.wait()) == (CODES, b"", 0)


def test_a_cut_capture_tells_all_before_the_cut(tmp_path: Path, timed: list[Timed]) -> None:
    for data in (pcap(timed), pcapng(timed)):
        whole = list(packets(write(tmp_path, data)))
        for cut in (1, 9, 30):
            assert list(packets(write(tmp_path, data[:-cut]))) == whole[:-1]


def test_a_cut_capture_is_said_to_be_one(tmp_path: Path, timed: list[Timed]) -> None:
    for data in (pcap(timed), pcapng(timed)):
        for cut in (1, 9):
            counts = Counter[str]()
            got = _signals(write(tmp_path, data[:-cut]), counts)
            assert len(got) > 0
            assert counts == {"cut_short": 1}
        counts = Counter[str]()
        _signals(write(tmp_path, data), counts)
        assert counts == {}


def test_a_block_of_no_possible_length_is_the_end_and_said(
    tmp_path: Path, timed: list[Timed]
) -> None:
    counts = Counter[str]()

    _signals(write(tmp_path, pcapng(timed) + struct.pack("<II", 6, 1 << 30)), counts)

    assert counts == {"cut_short": 1}


def test_a_capture_without_kafka_is_said_to_be_one(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["replay", "--source", "pcap", write(tmp_path, pcap([]))])

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "found no request of a Kafka client in the captures\n"


def test_a_capture_that_cannot_be_read_loses_no_other(tmp_path: Path, timed: list[Timed]) -> None:
    wrong = write(tmp_path, b"hello world", "wrong.pcap")
    cut = write(tmp_path, gzip.compress(pcap(timed))[:-8], "cut.pcap.gz")

    result = CliRunner().invoke(main, ["replay", "--source", "pcap", wrong, cut])

    assert [json.loads(line)["to"] for line in result.stdout.splitlines()] == CODES
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"Error: {wrong}: no pcap or pcapng file; it starts with b'hell'",
        f"Error: {cut}: Compressed file ended before the end-of-stream marker was reached",
    ]


def test_files_of_one_capture_are_one(tmp_path: Path, timed: list[Timed]) -> None:
    middle = len(timed) // 2
    parts = [
        write(tmp_path, pcap(timed[middle:]), "b.pcap"),
        write(tmp_path, pcapng(timed[:middle]), "a.pcapng"),
        write(tmp_path, pcap(timed), "again.pcap"),
    ]

    assert replayed(*parts) == CODES


def test_an_empty_file_tells_nothing(tmp_path: Path) -> None:
    assert list(packets(write(tmp_path, b""))) == []
    assert list(packets(write(tmp_path, pcap([])[:10]))) == []


@pytest.mark.parametrize(
    "data", [b"hello world", b"\x1f\x8bno gzip", gzip.compress(b"x" * 99, mtime=0)[:-9]]
)
def test_what_is_no_capture_is_an_error(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path, data)

    with pytest.raises(SourceError, match=r"in\.pcap"):
        list(packets(path))


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file"):
        list(packets(str(tmp_path / "none.pcap")))


def test_a_link_that_cannot_be_read_is_counted(tmp_path: Path, timed: list[Timed]) -> None:
    data = bytearray(pcap(timed[:3]))
    data[20:24] = struct.pack("<I", 147)
    path = write(tmp_path, bytes(data))
    counts = Counter[str]()

    assert _signals(path, counts) == []
    assert counts == {"link_type": 3}
    result = CliRunner().invoke(main, ["replay", "--source", "pcap", path])
    assert result.stderr == (
        "found no request of a Kafka client in the captures\nnot read: link_type 3\n"
    )


def test_the_cluster_is_the_configured_one(tmp_path: Path, timed: list[Timed]) -> None:
    got = _signals(write(tmp_path, pcap(timed)), Counter(), "prod")

    assert {signal.member.cluster for signal in got} == {"prod"}
    assert got[0].kind is SignalKind.RAISE


@given(st.sampled_from([b"", pcap([])[:24], pcapng([])]), st.binary(max_size=200))
def test_any_bytes_are_packets_or_an_error(head: bytes, tail: bytes) -> None:
    standard = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(head + tail)))
    try:
        for each in packets("-"):
            assert isinstance(each, Packet)
    except SourceError:
        pass
    finally:
        sys.stdin = standard


def test_a_fault_that_nobody_thought_of_ends_its_connection_alone(
    tmp_path: Path, timed: list[Timed], monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = GroupDecoder.decode

    def fail(self: GroupDecoder, event: Event) -> list[Signal]:
        if isinstance(event, DecodedRequest) and event.connection.client.host == "10.0.0.2":
            raise RuntimeError("nobody thought of this")
        return sound(self, event)

    monkeypatch.setattr(GroupDecoder, "decode", fail)
    other = dialogue(client=b"\x0a\0\0\x02\xc3\x51").segments
    both = sorted([*timed, *other], key=lambda each: each[0])
    counts = Counter[str]()

    found = _signals(write(tmp_path, pcap(both)), counts)

    assert {signal.member.host for signal in found} == {"10.0.0.1"}
    assert counts == {"decoder_fault": 1}
    assert len(found) == len(_signals(write(tmp_path, pcap(timed)), Counter()))


def test_a_pipe_is_not_read_to_see_what_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="found a pipe, which is read only once; wanted logs:"):
        is_capture(str(tmp_path / "pipe"))


def test_interfaces_without_end_are_bounded_and_their_packets_counted(
    tmp_path: Path, timed: list[Timed]
) -> None:
    """A gzip'ed file of 485 KB describes ten million, of 70 bytes each in memory."""
    interface = block("<", 1, struct.pack("<HHI", ETHERNET, 0, 0))
    data = ethernet(timed[0][1])
    late = block("<", 6, struct.pack("<IIIII", 199_999, 0, 0, len(data), len(data)) + data)
    path = write(tmp_path, pcapng(timed) + interface * 200_000 + late, "many.pcapng")
    counts = Counter[str]()
    tracemalloc.start()

    found = _signals(path, counts)

    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == _signals(write(tmp_path, pcapng(timed), "few.pcapng"), Counter())
    assert counts == {"link_type": 1}
    assert peak_bytes < 10 << 20


@pytest.mark.parametrize("body", [b"", b"\1"])
def test_an_interface_without_a_link_type_hides_no_other(
    tmp_path: Path, timed: list[Timed], body: bytes
) -> None:
    given = pcapng(timed)
    section = int.from_bytes(given[4:8], "little")
    lying = given[:section] + given[section:]
    lying += struct.pack("<II", 1, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))
    data = ethernet(timed[0][1])
    lying += block("<", 6, struct.pack("<IIIII", 2, 0, 0, len(data), len(data)) + data)

    assert replayed(write(tmp_path, lying, "lying.pcapng")) == CODES
