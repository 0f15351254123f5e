import json
import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.log_format import JsonFormatter, LogfmtFormatter


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
