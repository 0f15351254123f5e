import logging
from collections import Counter
from pathlib import Path

import pytest

from agent.sources.lines.file_reports import FileReports
from tests.agent.sources.lines.spoken import REBALANCING, says, signals


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_glob_without_a_file_is_warned_of_while_it_lasts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reports = FileReports("logs", ("/var/log/none/*.log",))

    for now in (0.0, 5.0, 599.0, 600.0):
        reports.report_scan((), now)

    assert messages(caplog) == ["log_glob_without_files"] * 2


def test_glob_with_a_file_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    reports = FileReports("logs", ("/var/log/**/*.log", "/var/log/a.log"))

    reports.report_scan((Path("/var/log/a.log"),), 0.0)

    assert messages(caplog) == []


def test_blind_file_is_warned_of_once_beside_a_good_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    reports = FileReports("logs", ("/*.log",))

    reports.report_read("/good.log", 100, 30, signals(says(REBALANCING)), behind=False)
    for _ in range(3):
        reports.report_read("/blind.log", 100, 15, [], behind=False)

    assert messages(caplog) == ["log_first_member", "log_without_members"]
    assert caplog.records[1].__dict__["path"] == "/blind.log"
    assert (reports.files["/good.log"].members, reports.files["/blind.log"].members) == (1, 0)


def test_file_that_is_not_read_to_its_end_is_not_judged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reports = FileReports("logs", ("/*.log",))

    reports.report_read("/a.log", 1 << 20, 500, [], behind=True)

    assert messages(caplog) == []


def test_of_many_files_the_first_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    reports = FileReports("logs", ("/*.log",))

    for number in range(1_000):
        reports.report_open(f"/{number}.log")
        rebalancing = signals(says(REBALANCING))
        reports.report_read(f"/{number}.log", 100, 1, rebalancing, behind=False)

    assert Counter(messages(caplog)) == {
        "log_opened": 100,
        "log_first_member": 100,
        "log_opened_many: further files are logged at level debug": 1,
    }
