"""A real terminal, tmux, that a test types into: what it shows, and a picture of it."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from tests.browser import DEADLINE_S

_PAUSE_S = 0.1


class Terminal:
    """One terminal with one program."""

    def __init__(self, socket: Path, size: tuple[int, int]) -> None:
        """Take the server's socket, and the size in columns and rows."""
        self._socket, self._size = socket, size

    def start(self, command: Sequence[str]) -> None:
        """Run a program in it."""
        columns, rows = map(str, self._size)
        self.ask("-f", os.devnull, "new-session", "-d", "-x", columns, "-y", rows, *command)

    def ask(self, *arguments: str) -> str:
        """Run a command of tmux and return what it prints."""
        command = ["tmux", "-S", str(self._socket), *arguments]
        # a terminal that this process runs in is not the one that is meant
        kept = {name: value for name, value in os.environ.items() if name not in _OF_OUTER}
        environment = kept | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=DEADLINE_S
        )
        return done.stdout

    def press(self, key: str) -> None:
        """Press a key, by tmux's name."""
        self.ask("send-keys", key)

    def shown(self, *, styled: bool = False) -> str:
        """Return what the screen shows; ``styled`` with its escape sequences."""
        return self.ask("capture-pane", "-p", *(["-e"] if styled else []))

    def wait(self, is_right: Callable[[str], object], wanted: str) -> str:
        """Wait until the screen is right, and return it."""
        until = time.monotonic() + DEADLINE_S
        while not is_right(shown := self.shown()):
            assert time.monotonic() < until, f"no {wanted} on the screen:\n{shown}"
            time.sleep(_PAUSE_S)
        return shown

    def picture(self, path: Path, title: str) -> None:
        """Write the screen as SVG."""
        columns, _ = self._size
        with Path(os.devnull).open("w") as nowhere:
            console = Console(width=columns, file=nowhere, record=True, force_terminal=True)
            console.print(Text.from_ansi(self.shown(styled=True)), soft_wrap=False)
            path.write_text(console.export_svg(title=title))


_OF_OUTER = ("TMUX", "TMUX_PANE", "COLUMNS", "LINES", "NO_COLOR")


@contextmanager
def terminal(folder: Path, size: tuple[int, int], command: Sequence[str]) -> Iterator[Terminal]:
    """Run a program in a terminal; without tmux the test is skipped, but fails in CI."""
    if shutil.which("tmux") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no tmux")
        pytest.skip("no tmux")
    made = Terminal(folder / "tmux", size)
    made.start(command)
    try:
        yield made
    finally:
        subprocess.run(
            ["tmux", "-S", str(folder / "tmux"), "kill-server"],
            check=False,
            capture_output=True,
            timeout=DEADLINE_S,
        )
