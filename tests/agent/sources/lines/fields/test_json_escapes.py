"""Logs whose JSON encoder writes characters of ASCII as numbers: Gson, System.Text.Json."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.sources.lines.fields.json_escapes import write_characters
from tests.agent.sources.lines.test_envelopes_of_recordings import RECORDINGS, iso, rows, summarise


def gson(found: object) -> str:
    """Encode as Gson does by default."""
    return escape(json.dumps(found), "=<>&'")


def of_net(found: object) -> str:
    """Encode as System.Text.Json does by default; its quotes within texts are numbers, too."""
    return escape(json.dumps(found).replace('\\"', "\\u0022"), "'<>&+`")


def escape(text: str, characters: str) -> str:
    return re.sub(f"[{re.escape(characters)}]", lambda found: f"\\u{ord(found[0]):04x}", text)


LAYOUTS: dict[str, Callable[[str, str], str]] = {
    "Gson": lambda at, text: gson({"timestamp": at, "message": text}),
    "System.Text.Json": lambda at, text: of_net({"Timestamp": at, "Message": text}),
    "Gson within Docker's objects": lambda at, text: json.dumps(
        {"log": gson({"timestamp": at, "message": text}) + "\n", "stream": "stdout", "time": at}
    ),
    "Gson around Gson": lambda at, text: gson({"message": gson({"time": at, "message": text})}),
    "System.Text.Json within a message": lambda at, text: of_net(
        {"message": of_net({"Timestamp": at, "Message": text}), "@timestamp": at}
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("recording", RECORDINGS)
def test_escaped_recording_shows_what_it_shows_bare(
    recording: str, layout: str, tmp_path: Path
) -> None:
    bare = "".join(f"{text}\n" for _, text in rows(recording))
    wanted = summarise(bare, tmp_path / "bare.log")
    assert wanted

    written = "".join(f"{LAYOUTS[layout](iso(at), text)}\n" for at, text in rows(recording))

    assert summarise(written, tmp_path / "app.log") == wanted


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_escaped_quote_stays_within_its_text(depth: int) -> None:
    text = 'a "b" \\ c'
    for _ in range(depth):
        text = of_net(text)

    plain = write_characters(text.encode()).decode()

    for _ in range(depth):
        plain = json.loads(plain)
    assert plain == 'a "b" \\ c'


def test_other_escapes_stay() -> None:
    text = b'{"a": "\\u005c \\u000a \\u00e9 \\u007f \\u2019 \\u0"}'

    assert write_characters(text) == text
