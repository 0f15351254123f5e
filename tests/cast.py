"""The cast of README and docs: the demo and `top` beside it, in real terminals.

``python -m tests.cast`` runs both, presses keys, and writes ``docs/pictures/cast.svg``.
"""

import re
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from docs.cast_picture import Frame, draw_cast
from tests.tmux import Terminal, terminal

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "cast.svg"
SIZE = (104, 24)
_LOOK_S = 0.25
_MOST_S = 60.0
_DEMO, _TOP = "rebalance-agent demo --keep-running --output demo", "rebalance-agent top --from {}"
_BIN = Path(sys.executable).parent
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
_GROUP, _INCIDENTS = "payments", "BEGAN, UTC"
_STUCK = re.compile(r"payments-1 exceeded")


class Cast:
    """Looks at terminals, as frames; the same screen again lengthens the frame before."""

    def __init__(self) -> None:
        """Start empty."""
        self.frames: list[Frame] = []
        self._last = ""
        self.still = 0
        """Number of the frame for readers who prefer no motion."""

    def watch(
        self, window: Terminal, title: str, note: str, is_over: Callable[[str, float], object]
    ) -> str:
        """Look until ``is_over`` of the screen and the seconds so far; return the screen."""
        began = time.monotonic()
        while True:
            started = time.monotonic()
            plain, styled = window.shown(), window.shown(styled=True)
            is_last = is_over(plain, started - began)
            assert is_last or started - began < _MOST_S, plain
            time.sleep(max(0.0, started + _LOOK_S - time.monotonic()))
            self._add(styled, time.monotonic() - started, title, note)
            if is_last:
                return plain

    def _add(self, styled: str, seconds: float, title: str, note: str) -> None:
        screen = f"{title}\n{note}\n{styled}"
        if screen == self._last:
            seconds += self.frames.pop().seconds
        self._last = screen
        self.frames.append(Frame(rows=_rows(styled), seconds=seconds, title=title, note=note))


def _rows(styled: str) -> list[list[Segment]]:
    console = Console(width=SIZE[0], force_terminal=True, color_system="truecolor")
    lines = Text.from_ansi(styled).split("\n")
    return [[run for run in line.render(console) if run.text] for line in lines][: SIZE[1]]


def _lasts(seconds: float) -> Callable[[str, float], bool]:
    return lambda _, so_far: so_far >= seconds


def _record(folder: Path) -> Cast:
    made = Cast()
    for name in ("play", "top"):
        (folder / name).mkdir()
    command = f"cd {shlex.quote(str(folder))} && clear && {_BIN}/{_DEMO}; read -r"
    with terminal(folder / "play", SIZE, ("bash", "-c", command)) as play:
        address = _ADDRESS.search(play.wait(_ADDRESS.search, "address"))
        assert address is not None
        title = _TOP.format(address[0])
        words = (str(_BIN / "rebalance-agent"), *title.split()[1:], "--interval", "1")
        with terminal(folder / "top", SIZE, words) as window:
            made.watch(play, _DEMO, "", _lasts(6))
            play.wait(lambda text: "a consumer is stuck" in text, "stuck consumer")
            made.watch(play, _DEMO, "", _lasts(2))
            made.watch(window, title, "in a second terminal", lambda text, _: _STUCK.search(text))
            made.watch(window, title, "in a second terminal", _lasts(3))
            made.still = len(made.frames) - 1
            _open_incident(made, window, title)
        play.wait(lambda text: "all still runs" in text, "end of the play")
        play.press("C-c")
        made.watch(play, _DEMO, "key: Ctrl-C", lambda text, _: "Next, for your own" in text)
        made.watch(play, _DEMO, "", _lasts(5))
    return made


def _open_incident(made: Cast, window: Terminal, title: str) -> None:
    """Filter, open the group, then its stuck consumer's incident, with what to change."""
    for key in ("/", *_GROUP[:3]):
        window.press(key)
        made.watch(window, title, f"key: {key}", _lasts(0.5))
    window.press("Enter")
    made.watch(window, title, "key: Enter", _lasts(1))
    window.press("Enter")
    shown = made.watch(window, title, "key: Enter", lambda text, _: _INCIDENTS in text)
    made.watch(window, title, "key: Enter", _lasts(3))
    listed = shown.partition(_INCIDENTS)[2].splitlines()[1:]
    for _ in range(next(number for number, row in enumerate(listed) if _STUCK.search(row))):
        window.press("Down")
        made.watch(window, title, "key: Down", _lasts(0.5))
    window.press("Enter")
    made.watch(window, title, "key: Enter", lambda text, _: "What to do" in text)
    made.watch(window, title, "key: Enter", _lasts(7))


def main() -> None:
    """Record, and write the picture."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        made = _record(Path(folder))
    PICTURE.write_text(draw_cast(made.frames, SIZE[0], made.still))


if __name__ == "__main__":
    main()
