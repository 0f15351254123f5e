"""The soak's short form, and its oracle by itself; `make soak` runs the long one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak.oracle import codes

_MINUTES = os.environ.get("SOAK_MINUTES", "0.5")

_HEADER = "RequestHeader(apiKey=X, apiVersion=9, clientId=c1, correlationId={n}, headerVersion=2)"
_SENT = f"Sending {{api}} request with header {_HEADER} and timeout 1 to node 1: {{body}}"
_RECEIVED = f"Received {{api}} response from node 1 for request with header {_HEADER}: {{body}}"


def _told(folder: Path, *said: tuple[str, str, int, str]) -> list[int]:
    log = folder / "c1.log.debug"
    shapes = {"ask": _SENT, "answer": _RECEIVED, "say": "{body}"}
    lines = [shapes[what].format(api=api, n=n, body=body) for what, api, n, body in said]
    log.write_text("".join(f"{line}\n" for line in lines))
    return codes(log)


def _join(number: int, reason: str = "") -> tuple[str, str, int, str]:
    return "ask", "JOIN_GROUP", number, f"JoinGroupRequestData(reason='{reason}')"


def _answer(api: str, number: int, error: int) -> tuple[str, str, int, str]:
    return "answer", api, number, f"SomeResponseData(errorCode={error}, memberId='m')"


def test_a_life_in_the_oracles_words(tmp_path: Path) -> None:
    told = _told(
        tmp_path,
        _join(1),
        _answer("JOIN_GROUP", 1, 79),
        _join(2, "need to re-join with the given member-id: c1-a"),
        _answer("JOIN_GROUP", 2, 0),
        _answer("SYNC_GROUP", 3, 0),
        _join(4, "a new configuration"),
        _answer("HEARTBEAT", 5, 27),
        _answer("SYNC_GROUP", 6, 0),
        ("ask", "LEAVE_GROUP", 8, "LeaveGroupRequestData(reason='the consumer is being closed')"),
        _answer("HEARTBEAT", 7, 25),
        _join(1),
        _answer("JOIN_GROUP", 1, 79),
    )

    assert told == [2, 0, 6, 0, 6, 0, 2]


def test_a_drop_holds_until_the_next_sync(tmp_path: Path) -> None:
    told = _told(
        tmp_path,
        ("ask", "LEAVE_GROUP", 1, "LeaveGroupRequestData(reason='poll timeout has expired.')"),
        _join(2, "consumer pro-actively leaving the group"),
        _answer("JOIN_GROUP", 2, 79),
        _answer("SYNC_GROUP", 3, 0),
    )

    assert told == [5, 0]


def test_what_a_killed_process_had_begun_ends_with_it(tmp_path: Path) -> None:
    told = _told(
        tmp_path,
        _join(7, "a new configuration"),
        _join(1),
        _answer("JOIN_GROUP", 1, 79),
        _answer("SYNC_GROUP", 2, 0),
    )

    assert told == [6, 2, 0]


def test_what_is_asked_for_while_a_join_is_under_way_counts(tmp_path: Path) -> None:
    told = _told(
        tmp_path,
        ("ask", "LEAVE_GROUP", 1, "LeaveGroupRequestData(reason='poll timeout has expired.')"),
        _join(2, "need to re-join with the given member-id: c1-a"),
        ("say", "", 0, "Request joining group due to: a new configuration"),
        _answer("JOIN_GROUP", 2, 0),
        _answer("SYNC_GROUP", 3, 0),
    )

    assert told == [5, 6, 0]


@pytest.mark.kafka
@pytest.mark.jvm
@pytest.mark.timeout(900)
def test_every_transition_is_told_and_no_other(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.soak", "--minutes", _MINUTES, "--consumers", "4"]
    done = subprocess.run(
        [*command, "--keep", tmp_path / "soak"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    found = json.loads(done.stdout)
    assert (found["precision"], found["recall"]) == (1.0, 1.0)
    assert found["wanted"] > 10
