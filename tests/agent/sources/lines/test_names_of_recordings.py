"""Recordings of real clients show the same whatever their clients and groups are called."""

import re
from pathlib import Path

import pytest

from tests.agent.sources.lines.test_envelopes_of_recordings import GOLDEN, replay, summarise

RECORDINGS = sorted(path.parent.name for path in GOLDEN.glob("*/input.log"))
RECORDINGS.remove("java-client-closed")  # its client is called as a partition, orders-1
FORMS = {
    "blank": "{} of our shop",
    "UUID": "{}-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0.eu",
    "punctuation": "eu/{}#1@a:b",
}
NUMBERED = 2
"""Shorter names are numbers and letters of other texts, too."""


def rename(text: str, name: str, form: str) -> str:
    """Write a client or group with another name, also in its member ids."""
    end = r"(?:(?=-[0-9a-f]{8}-[0-9a-f]{4}-)|(?=-StreamThread-)|(?![\w-]))"
    return re.sub(rf"(?<![\w.-]){re.escape(name)}{end}", form.format(name), text)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("which", ["client_id", "group"])
@pytest.mark.parametrize("recording", RECORDINGS)
def test_a_recording_shows_the_same_by_another_name(
    recording: str, which: str, form: str, tmp_path: Path
) -> None:
    text = (GOLDEN / recording / "input.log").read_text("utf-8")
    wanted = summarise(text, tmp_path / "bare.log")
    names = {getattr(signal.member, which) for _, signal in replay(text, tmp_path / "bare.log")}

    for name in sorted((each for each in names if len(each) >= NUMBERED), key=len, reverse=True):
        text = rename(text, name.partition("-StreamThread-")[0], FORMS[form])

    assert summarise(text, tmp_path / "app.log") == wanted
