"""Captures that hide requests: `replay` names the fault and the remedy."""

import struct
from pathlib import Path

from click.testing import CliRunner

from agent.cli import main
from tests.agent.sources.capture.ip_packets import V4, Talk, from_broker, to_broker
from tests.agent.wire.captures import Timed, dialogue, packet

RAW = 101


def _notes(folder: Path, packets: list[bytes], snap: int = 65_535) -> str:
    """Return what `replay` writes to stderr of a capture that keeps so much of each packet."""
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap, RAW)
    for number, data in enumerate(packets):
        kept = data[:snap]
        out += struct.pack("<IIII", 1_795_242_824 + number, 0, len(kept), len(data)) + kept
    path = folder / "in.pcap"
    path.write_bytes(out)
    result = CliRunner().invoke(main, ["replay", "--source", "pcap", str(path)])
    assert result.exit_code == 0, result.output
    return result.stderr


def _packets() -> list[bytes]:
    segments: list[Timed] = dialogue().segments
    return [packet(segment) for _, segment in segments]


def test_a_whole_capture_has_none(tmp_path: Path) -> None:
    assert _notes(tmp_path, _packets()) == ""


def test_cut_packets(tmp_path: Path) -> None:
    notes = _notes(tmp_path, _packets(), snap=96)

    assert "packets are cut, to 56 bytes of data at most" in notes
    assert "tcpdump -s 0" in notes


def test_one_direction(tmp_path: Path) -> None:
    segments = dialogue().segments
    client = segments[0][1].source

    asked = [packet(segment) for _, segment in segments if segment.source == client]
    answered = [packet(segment) for _, segment in segments if segment.source != client]

    for packets in (asked, answered):
        assert "only one direction was captured" in _notes(tmp_path, packets)


def test_tls(tmp_path: Path) -> None:
    hello = b"\x16\x03\x01\x00\xc8\x01" + bytes(200)
    talks = [Talk((V4.client[0], 40_000 + number), V4.server) for number in range(3)]
    packets = [
        each
        for talk in talks
        for each in (to_broker(talk, hello, seq=1), from_broker(talk, hello, seq=1))
    ]

    notes = _notes(tmp_path, packets)

    assert "3 connections carry TLS" in notes
    assert "use the proxy" in notes
