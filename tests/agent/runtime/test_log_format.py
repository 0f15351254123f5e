import json
import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.log_format import (
    MAX_VALUE_CHARS,
    REPEAT_BURST,
    REPEAT_S,
    JsonFormatter,
    LogfmtFormatter,
    RepeatLimit,
)


def record(message: str, **keys: object) -> logging.LogRecord:
    made = logging.LogRecord("agent.wiring.agent", logging.INFO, __file__, 1, message, None, None)
    made.created = 1000.5
    vars(made).update(keys)
    return made


HEAD = "ts=1970-01-01T00:16:40.500000Z level=info logger=agent.wiring.agent"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("127.0.0.1:1", "127.0.0.1:1"),
        (7, "7"),
        ("", '""'),
        ("two words", '"two words"'),
        ('a="b"\n', '"a=\\"b\\"\\n"'),
        ("\x1b[31m", '"\\u001b[31m"'),
        ("a\u202eb\x00\x85\u2028", '"a\\u202eb\\u0000\\u0085\\u2028"'),
        ("\ud800", '"\\ud800"'),
    ],
)
def test_logfmt_is_one_line_of_keys(value: object, shown: str) -> None:
    line = LogfmtFormatter().format(record("listening", address=value))

    assert line == f"{HEAD} event=listening address={shown}"


def test_json_is_one_object_of_keys() -> None:
    line = JsonFormatter().format(record("listening", address="a\nb"))

    assert "\n" not in line
    assert json.loads(line) == {
        "ts": "1970-01-01T00:16:40.500000Z",
        "level": "info",
        "logger": "agent.wiring.agent",
        "event": "listening",
        "address": "a\nb",
    }


@pytest.mark.parametrize("style", [LogfmtFormatter, JsonFormatter])
@given(got=st.text())
def test_what_comes_from_outside_reaches_the_log_visibly(
    style: type[logging.Formatter], got: str
) -> None:
    assert style().format(record("client_refused", sans=got)).isprintable()


def test_a_traceback_stays_on_its_line() -> None:
    failed = record("source_failed")
    try:
        raise ValueError("odd")  # noqa: TRY301
    except ValueError:
        failed.exc_info = sys.exc_info()

    line = LogfmtFormatter().format(failed)

    assert "\n" not in line
    assert line.endswith('ValueError: odd"')


class TestRepeatLimit:
    """A peer that sends no HTTP caused a line with each request."""

    def test_lines_of_one_place_are_bounded_and_the_rest_is_counted(self) -> None:
        now = [0.0]
        limit = RepeatLimit(lambda: now[0])
        flood = [limit.filter(record("invalid", peer=n)) for n in range(5_000)]
        now[0] += REPEAT_S
        after = record("invalid")

        assert (sum(flood), limit.filter(after)) == (REPEAT_BURST, True)
        assert vars(after)["suppressed"] == 5_000 - REPEAT_BURST
        assert not limit.filter(record("invalid"))

    def test_other_places_and_debug_are_not_held_up(self) -> None:
        limit, other, debug = RepeatLimit(lambda: 0.0), record("other"), record("invalid")
        other.lineno, debug.levelno = 2, logging.DEBUG
        for _ in range(5_000):
            limit.filter(record("invalid"))

        assert [limit.filter(each) for each in (other, debug, record("invalid"))] == [
            True,
            True,
            False,
        ]


@pytest.mark.parametrize("formatter", [LogfmtFormatter(), JsonFormatter()])
def test_a_value_of_a_peer_is_clipped(formatter: logging.Formatter) -> None:
    """A broker's error message may have 100 MiB."""
    text = formatter.format(record("groups_partial", error="é" * (MAX_VALUE_CHARS + 7)))

    assert "... (7 more)" in text
    assert len(text) < 7 * MAX_VALUE_CHARS
