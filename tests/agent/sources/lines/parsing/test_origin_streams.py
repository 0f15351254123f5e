"""Streams of one file stay bounded, whatever names its lines carry."""

import json

import pytest

from agent.sources.lines.envelopes.envelope import LogEntry
from agent.sources.lines.parsing import origin_streams as module
from agent.sources.lines.parsing.origin_streams import OriginStreams
from agent.sources.logs.client_interpreter import ClientInterpreter
from tests.agent.sources.lines.spoken import ARRIVAL_AT, JOINING, log, parser, says


def streams() -> OriginStreams:
    main = ClientInterpreter(stream="all.log")
    return OriginStreams(main, main.derive)


def test_processes_are_remembered_for_as_many_origins_as_there_are_streams() -> None:
    """A log of a million pods has a million origins, each with a process id or two."""
    many = streams()

    for number in range(3 * module._MAX_ORIGINS):
        for pid in ("1", "2", "1"):
            name = many.name_of(LogEntry(text="", at=None, origin=f"pod-{number}", pid=pid))

    assert name == f"pod-{3 * module._MAX_ORIGINS - 1}[1]"
    state = many.state()
    assert len(state["processes"]) == module._MAX_ORIGINS


@pytest.mark.parametrize(
    "names",
    [
        {"kubernetes": {"pod_name": "p" * 50_000, "container_name": "c" * 50_000}},
        {"host": "h" * 50_000, "pid": "9" * 50_000},
        {"_SYSTEMD_UNIT": "u" * 50_000},
    ],
    ids=["pod", "host", "unit"],
)
def test_names_of_streams_are_clipped(names: dict[str, object]) -> None:
    reader = parser()

    (found,) = reader.feed(
        json.dumps({"message": log(says(JOINING)).decode().strip(), **names}).encode() + b"\n",
        ARRIVAL_AT,
    )

    assert 200 < len(found.member.host) <= 255 or "_SYSTEMD_UNIT" in names
    assert len(json.dumps(reader.state())) < 5_000
