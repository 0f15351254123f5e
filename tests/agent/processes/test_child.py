import signal
import sys
from pathlib import Path

import pytest

from agent.processes.child import Child
from agent.processes.errors import ProcessError

_DEAF = """\
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
signal.pause()
"""


def _python(script: str, log: Path) -> Child:
    return Child("it", [sys.executable, "-c", script], log)


def test_one_that_ends_before_it_is_as_wanted_is_raised_with_its_last_words(tmp_path: Path) -> None:
    with (
        _python("raise SystemExit('no memory')", tmp_path / "it.log") as child,
        pytest.raises(ProcessError, match=r"it: wanted a page, but it ended(.|\n)*no memory"),
    ):
        child.wait_until(lambda: False, "a page", timeout_s=60.0)


def test_one_that_is_not_as_wanted_in_time_is_raised(tmp_path: Path) -> None:
    with (
        _python("import signal; signal.pause()", tmp_path / "it.log") as child,
        pytest.raises(ProcessError, match="it: wanted a page, but not in 0 s"),
    ):
        child.wait_until(lambda: False, "a page", timeout_s=0.0)


def test_leaving_it_ends_it(tmp_path: Path) -> None:
    with _python("import signal; signal.pause()", tmp_path / "it.log") as child:
        assert child.is_running

    assert child.wait() == -signal.SIGTERM


def test_one_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "it.log"
    with _python(_DEAF, log) as child:
        child.wait_until(lambda: "deaf" in log.read_text(), "it started", timeout_s=60.0)

        assert child.stop(timeout_s=0.01) == -signal.SIGKILL
