"""Walks of a person from the installation to a stuck consumer, its cost, and what to change.

Chromium and the terminal are real.
``python -m tests.walks`` builds the wheel, installs it into a new environment, runs the demo from
there, walks, and writes the pictures into ``docs/pictures/walks``.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from tests.devtools import Tab, browser
from tests.tmux import Terminal, terminal

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "pictures" / "walks"
EXTRAS = "wire,kafka,top"
"""What the quick start installs."""
PROGRAM = (sys.executable, "-P", "-m", "kafka_rebalance_agent")
MAX_STEPS = 4
WIDTHS = (1200, 390)
SIZES = ((120, 30), (80, 24))
_STUCK = re.compile(r"(\S+) exceeded its poll interval")
_STUCK_GROUP = "payments"
"""Of the stuck consumer. Its row shows the group's last incident, which may be another one."""
_COST = re.compile(r"(\d[\d.,]*) partition-seconds")
_CHANGE = re.compile(r"max\.poll\.[a-z.]+")
_LINKS = "Array.from(document.querySelectorAll('main a'), each => each.textContent)"


_INSTALL_MAX_S = 1200.0
_TYPED = """
cd '{folder}' && clear
run() {{ printf '$ %s\\n' "$*"; "$@"; }}
export PIP_DISABLE_PIP_VERSION_CHECK=1
run python3 -m venv env && run env/bin/pip install --quiet '{wheel}[{extras}]' &&
  run env/bin/rebalance-agent --version && printf '$ ' && read -r
"""


def install(folder: Path, pictures: Path) -> tuple[str, ...]:
    """Install the wheel into an environment of its own, in a terminal; return its program."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*build, str(ROOT)], check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    typed = _TYPED.format(folder=folder, wheel=wheel.name, extras=EXTRAS)
    with terminal(folder, (120, 12), ("bash", "-c", typed)) as window:
        until = time.monotonic() + _INSTALL_MAX_S
        while "version" not in window.shown().rpartition("--version")[2]:
            assert time.monotonic() < until, window.shown()
            time.sleep(1.0)
        window.picture(pictures / "install.svg", "install")
    return (str(folder / "env" / "bin" / "rebalance-agent"),)


def walk_pages(tab: Tab, address: str, width: int, pictures: Path) -> list[str]:
    """Click from the first page to what to change; return what was clicked."""
    tab.screen(width, height=800)
    tab.open(f"{address}/")
    tab.picture(pictures / f"page-{width}-1.png")
    texts = tab.run(_LINKS)
    number = next(n for n, text in enumerate(texts) if _STUCK.search(text))
    tab.run(f"document.querySelectorAll('main a')[{number}].dataset.next = ''")
    tab.click("[data-next]")
    tab.picture(pictures / f"page-{width}-2.png")
    shown = tab.run("document.querySelector('main').innerText")
    assert _STUCK.search(shown), shown
    assert re.search(r"Unread\s+[\d.,]+\s+partition-seconds", shown), shown
    assert _CHANGE.search(tab.run("document.querySelector('#advice').innerText"))
    assert tab.run("document.documentElement.scrollWidth - innerWidth") <= 0
    return [texts[number]]


def walk_terminal(window: Terminal, columns: int, pictures: Path) -> list[str]:
    """Press keys from the first screen to what to change; return them."""
    steps: list[str] = []

    def press(key: str) -> None:
        window.press(key)
        steps.append(key)

    shown = window.wait(lambda text: "GROUP" in text and _STUCK_GROUP in text, "stuck consumer")
    window.picture(pictures / f"terminal-{columns}-1.svg", "rebalance-agent top")
    _, *below = shown[shown.index("GROUP") :].splitlines()
    groups = list(takewhile(str.strip, below))
    stuck = next(n for n, row in enumerate(groups) if _STUCK_GROUP in row)
    from_end = len(groups) - 1 - stuck
    way = ["Down"] * stuck if stuck <= from_end + 1 else ["PageDown", *["Up"] * from_end]
    for key in way:
        press(key)
    press("Enter")
    shown = window.wait(lambda text: "BEGAN, UTC" in text and "exceeded its poll" in text, "group")
    window.picture(pictures / f"terminal-{columns}-2.svg", "rebalance-agent top")
    listed = shown.partition("BEGAN, UTC")[2].splitlines()[1:]
    for _ in range(next(n for n, row in enumerate(listed) if "exceeded its poll" in row)):
        window.press("Down")  # no step of the play: a busy machine adds incidents of its own
    press("Enter")
    shown = window.wait(_CHANGE.search, "advice")
    window.picture(pictures / f"terminal-{columns}-3.svg", "rebalance-agent top")
    words = " ".join(shown.split())
    assert _STUCK.search(words), shown
    assert _COST.search(words), shown
    return steps


def walk_all(
    address: str, folder: Path, pictures: Path, program: Sequence[str] = PROGRAM
) -> dict[str, list[str]]:
    """Walk in every width and size; return the steps of each walk."""
    steps: dict[str, list[str]] = {}
    with browser(folder) as tab:
        for width in WIDTHS:
            steps[f"page, {width} px"] = walk_pages(tab, address, width, pictures)
    for size in SIZES:
        own = folder / f"terminal-{size[0]}"
        own.mkdir()
        command = (*program, "top", "--from", address)
        with terminal(own, size, command) as window:
            steps[f"terminal, {size[0]} columns"] = walk_terminal(window, size[0], pictures)
    return steps


@dataclass(slots=True)
class Demo:
    """A demo after its play; how it ended is known once it did."""

    address: str
    printed: str = ""
    code: int | None = None


@contextmanager
def running_demo(folder: Path, *options: str, program: Sequence[str] = PROGRAM) -> Iterator[Demo]:
    """Run the demo until its play has ended, and end it as Ctrl-C does."""
    command = [*program, "demo", "--output", str(folder), "--keep-running", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        demo = Demo("")
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if "all still runs" in line)
            demo.address = line.split()[3].rstrip("/")
            yield demo
        finally:
            process.send_signal(signal.SIGINT)
            demo.printed, _ = process.communicate(timeout=120)
            demo.code = process.returncode


def main() -> None:
    """Install, walk beside a demo; print the steps, keep the pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        program = install(folder, FOLDER)
        with running_demo(folder / "demo", program=program) as demo:
            steps = walk_all(demo.address, folder, FOLDER, program)
    for walk, made in steps.items():
        sys.stdout.write(f"{walk}: {len(made)} steps: {', '.join(made)}{os.linesep}")
    sys.exit(any(len(made) > MAX_STEPS for made in steps.values()))


if __name__ == "__main__":
    main()
