import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.processes.driver import Driver
from agent.processes.errors import ProcessError

_ECHO = """\
import sys
print("started", flush=True)
for line in sys.stdin:
    word = line.split()[0]
    print(f"error {line}" if word == "fail" else f"done {word}", flush=True)
    if word == "close":
        break
"""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    log = tmp_path / "m1.log"
    with Driver("m1", [sys.executable, "-c", _ECHO], log) as driver:
        yield driver
    assert not driver.is_running


def test_a_command_is_waited_for(driver: Driver) -> None:
    driver.do("subscribe a b")

    driver.close()

    assert not driver.is_running


def test_events_before_the_wanted_one_are_dropped(driver: Driver) -> None:
    driver.send("a")
    driver.send("b")

    assert driver.wait_for("done b") == "done b"


def test_an_event_before_the_command_is_no_answer_to_it(driver: Driver) -> None:
    driver._events.put("done long ago")

    driver.send("a")

    assert driver.wait_for("done") == "done a"


def test_a_failure_is_raised_with_the_log(driver: Driver) -> None:
    driver.log.write_text("why it failed\n")

    with pytest.raises(ProcessError, match=r"m1: error fail badly(.|\n)*why it failed"):
        driver.do("fail badly")


def test_an_end_while_waiting_is_raised(driver: Driver) -> None:
    driver.send("close")

    for _ in range(2):
        with pytest.raises(ProcessError, match="ended"):
            driver.wait_for("assigned")


def test_an_event_that_does_not_come_is_raised(driver: Driver) -> None:
    with pytest.raises(ProcessError, match="no 'assigned' in time"):
        driver.wait_for("assigned", timeout_s=0.01)


def test_a_command_to_one_that_is_gone_is_raised(driver: Driver) -> None:
    driver.kill()

    with pytest.raises(ProcessError, match=r"m1 is gone; .*; last lines of"):
        driver.send("subscribe a")


def test_a_paused_driver_resumes_where_it_stood(driver: Driver) -> None:
    driver.pause()
    driver.send("a")
    driver.resume()

    assert driver.wait_for("done") == "done a"


def test_a_paused_driver_can_be_stopped(driver: Driver) -> None:
    driver.pause()

    driver.stop()

    assert not driver.is_running
