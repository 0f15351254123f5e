"""A real Chromium, headless: what a page looks like and what it holds once it is shown."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

DEADLINE_S = 90.0
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def chromium() -> str:
    """Return the browser's path; without one the test is skipped, but fails in CI."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is not None:
        return found
    if os.environ.get("CI") == "true":
        pytest.fail("no Chromium; wanted one of: " + ", ".join(_NAMES))
    pytest.skip("no Chromium")


def shown(url: str, folder: Path, *, dark: bool = False) -> tuple[str, bytes]:
    """Return the page's document once it is shown, and a picture of it (PNG)."""
    picture = folder / f"{'dark' if dark else 'light'}.png"
    dom = _run(url, folder, dark, "--dump-dom")
    _run(url, folder, dark, f"--screenshot={picture}")
    return dom, picture.read_bytes()


DESK_PX, TELEPHONE_PX = 1200, 400


def sideways(page: str, folder: Path, width_px: int = DESK_PX) -> list[str]:
    """Return which elements of a page would have to be scrolled sideways in a window.

    A script measures them in a copy, whose own policy would not let it.
    """
    copy = folder / "measured.html"
    copy.write_text(
        re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page) + _MEASURE
    )
    size = f"--window-size={width_px},1400"
    dom = _run(copy.as_uri(), folder, False, size, "--dump-dom")
    _, _, found = dom.partition('data-sideways="')
    assert found, "the script did not run"
    return found.partition('"')[0].split()


_MEASURE = """<script>
document.body.dataset.sideways = [...document.querySelectorAll("html, section, figure, .wide")]
  .filter(one => one.scrollWidth > one.clientWidth)
  .map(one => [one.tagName == "FIGURE" ? "figure:" : "", one.closest("section")?.id ?? one.tagName])
  .map(parts => parts.join("")).join(" ");
</script>"""


def _run(url: str, folder: Path, dark: bool, *asked: str) -> str:
    command = [
        chromium(),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--window-size=1200,1400",
        f"--user-data-dir={folder / 'profile'}",
        *(["--blink-settings=preferredColorScheme=0"] if dark else []),
        *asked,
        url,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE_S)
    return done.stdout
