"""A real Chromium that a test drives by the DevTools protocol, over a pipe: no port, no library."""

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.browser import DEADLINE_S, chromium

_PAUSE_S = 0.05
# Chromium reads commands from descriptor 3 and answers on 4
_EXEC = """
import fcntl, os, sys
ours = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3]]
for number, each in enumerate(ours, 3):
    os.dup2(each, number)
os.execv(sys.argv[3], sys.argv[3:])
"""


class DevToolsError(Exception):
    """The browser refused a command."""


class Tab:
    """One page in the browser."""

    def __init__(self, send: Callable[..., dict[str, Any]], session: str) -> None:
        """Take what sends a command, and the session of the page."""
        self._send, self._session = send, session

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send a command and return its result."""
        return self._send(method, parameters, self._session)

    def run(self, script: str) -> Any:
        """Return the value of an expression; a promise is awaited.

        Raises:
            AssertionError: the script failed.

        """
        done = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def open(self, url: str) -> None:
        """Load a page, until its scripts have run."""
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.href === {json.dumps(url)}")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + DEADLINE_S
        while not self._holds(condition):
            assert time.monotonic() < until, condition
            time.sleep(_PAUSE_S)

    def click(self, selector: str) -> None:
        """Click the middle of an element with the mouse, and wait for the page that follows."""
        mark = "window.isOld = true"
        spot = self.run(
            f"{mark}; (() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const r = e.getClientRects()[0];"
            " return [r.x + Math.min(r.width / 2, 40), r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind, x=spot[0], y=spot[1], button="left", clickCount=1,
            )  # fmt: skip
        self.wait("!window.isOld && document.readyState === 'complete'")

    def press(self, key: str) -> None:
        """Press a key."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screen(self, width: int, *, dark: bool = False, height: int = 900) -> None:
        """Set the window's width, and the reader's preference for dark pages."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path) -> None:
        """Write the whole page as PNG."""
        made = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(made["data"]))

    def _holds(self, condition: str) -> bool:
        try:
            done = self.call("Runtime.evaluate", expression=condition, returnByValue=True)
        except DevToolsError:  # a page that is being left
            return False
        return "exceptionDetails" not in done and bool(done["result"].get("value"))


@contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """Run a browser and yield its page."""
    to_browser, from_test = os.pipe()
    to_test, from_browser = os.pipe()
    command = [
        chromium(),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}",
        "--remote-debugging-pipe",
        "about:blank",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", _EXEC, str(to_browser), str(from_browser), *command],
        pass_fds=(to_browser, from_browser),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        with os.fdopen(from_test, "wb", 0) as out, os.fdopen(to_test, "rb") as answers:
            yield _tab(_sender(out.write, answers.read1))
    finally:
        process.kill()
        process.wait()


def _sender(
    write: Callable[[bytes], object], read: Callable[[int], bytes]
) -> Callable[..., dict[str, Any]]:
    number, rest = 0, b""

    def send(method: str, parameters: dict[str, object], session: str = "") -> dict[str, Any]:
        nonlocal number, rest
        number += 1
        wanted = {"id": number, "method": method, "params": parameters}
        write(json.dumps(wanted | ({"sessionId": session} if session else {})).encode() + b"\0")
        while True:
            while b"\0" not in rest:
                piece = read(1 << 20)
                assert piece, "the browser ended"
                rest += piece
            text, _, rest = rest.partition(b"\0")
            answer: dict[str, Any] = json.loads(text)
            if answer.get("id") == number:
                if "error" in answer:
                    raise DevToolsError(answer["error"]["message"])
                result: dict[str, Any] = answer["result"]
                return result

    return send


def _tab(send: Callable[..., dict[str, Any]]) -> Tab:
    target = send("Target.createTarget", {"url": "about:blank"})["targetId"]
    attached = send("Target.attachToTarget", {"targetId": target, "flatten": True})
    tab = Tab(send, attached["sessionId"])
    tab.call("Page.enable")
    return tab
