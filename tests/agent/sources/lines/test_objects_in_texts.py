"""Several lines of a runtime or an application in one text of a store's object."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from tests.agent.sources.lines.test_envelopes_of_recordings import RECORDINGS, iso, rows, summarise

Row = tuple[datetime, str]


def of_docker(at: datetime, text: str) -> str:
    return json.dumps({"log": f"{text}\n", "stream": "stdout", "time": iso(at)})


def of_application(at: datetime, text: str) -> str:
    return json.dumps({"@timestamp": iso(at), "message": text})


def batched(found: list[Row], size: int) -> list[tuple[Row, ...]]:
    return [tuple(found[at : at + size]) for at in range(0, len(found), size)]


def join(lines: Callable[[datetime, str], str], some: tuple[Row, ...], end: str = "") -> str:
    return "\n".join(lines(at, text) for at, text in some) + end


FORMS: dict[str, Callable[[tuple[Row, ...]], object]] = {
    "Docker's objects in a message": lambda some: {
        "@timestamp": iso(some[0][0]),
        "message": join(of_docker, some),
    },
    "Docker's objects in one of Docker's": lambda some: {
        "log": join(of_docker, some, "\n"),
        "stream": "stdout",
        "time": iso(some[0][0]),
    },
    "Docker's objects in a field of its own": lambda some: {
        "excerpt": join(of_docker, some),
        "pod": "pay-0",
    },
    "Docker's objects in a string": lambda some: join(of_docker, some, "\n"),
    "objects of an application in a message": lambda some: {
        "@timestamp": iso(some[0][0]),
        "message": join(of_application, some),
    },
    "objects of an application in Splunk's": lambda some: {
        "preview": False,
        "result": {"_raw": join(of_application, some), "host": "node"},
    },
}


@pytest.mark.parametrize("size", [2, 7, 150])
@pytest.mark.parametrize("form", FORMS)
def test_each_object_of_a_text_is_read(form: str, size: int, tmp_path: Path) -> None:
    recording = RECORDINGS[(list(FORMS).index(form) + size) % len(RECORDINGS)]
    bare = "".join(f"{text}\n" for _, text in rows(recording))
    wanted = summarise(bare, tmp_path / "bare.log")
    assert wanted

    written = "".join(
        json.dumps(FORMS[form](some)) + "\n" for some in batched(rows(recording), size)
    )

    assert summarise(written, tmp_path / "app.log") == wanted
