"""Exports of text: Windows' event log, labels of s6, lists of strings, objects behind prefixes."""

import json
from pathlib import Path

import pytest

from tests.agent.sources.lines.test_posted_forms import (
    EVENTS,
    NEWEST_FIRST,
    WANTED,
    lines,
    log4j,
    ms,
    replay,
)

SCHEMA = "http://schemas.microsoft.com/win/2004/08/events/event"
FORMS = {
    "wevtutil qe": lines(
        lambda at, text: (
            f"<Event xmlns='{SCHEMA}'><System><TimeCreated SystemTime='{at:%Y-%m-%dT%H:%M:%S}"
            ".1234567Z'/><Computer>p-1</Computer></System><EventData><Data>"
            f"{text.replace(chr(39), '&apos;')}</Data></EventData></Event>"
        )
    ),
    "wevtutil qe /f:text": "\n".join(
        f"Event[{number}]:\n  Log Name: Application\n  Date: {at:%Y-%m-%dT%H:%M:%S}.123\n"
        f"  Level: Information\n  Computer: p-1\n  Description: \n{text}\n"
        for number, (at, text) in enumerate(EVENTS)
    ),
    "PowerShell's list": "\n".join(
        f"TimeCreated  : {at:%m/%d/%Y %I:%M:%S %p}\nProviderName : X\n"
        f"Message      : {text[:40]}\n               {text[40:]}\n"
        for at, text in NEWEST_FIRST
    ),
    "Event Viewer's table": "Level,Date and Time,Source,Event ID,Task Category\n"
    + "\n".join(
        f'Information,{at:%m/%d/%Y %I:%M:%S %p},X,0,None,"{text}"' for at, text in NEWEST_FIRST
    ),
    "s6": lines(
        lambda at, text: (
            f"@{(1 << 62) + 10 + ms(at) // 1000:016x}{at.microsecond * 1000:08x} {text}"
        )
    ),
    "a list of strings": json.dumps([log4j(at, text) for at, text in EVENTS]),
    "a field with a list of strings": json.dumps(
        {"logs": [log4j(at, text) for at, text in EVENTS]}
    ),
    "escaped ends of lines": json.dumps({"stdout": lines(log4j)}),
    "indented objects behind compose's prefix": "\n".join(
        f"p-1  | {line}"
        for at, text in EVENTS
        for line in json.dumps({"timeMillis": ms(at), "message": text}, indent=2).splitlines()
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_export_is_read_in_the_order_of_time(form: str, tmp_path: Path) -> None:
    assert replay(FORMS[form], tmp_path)[0] == WANTED
