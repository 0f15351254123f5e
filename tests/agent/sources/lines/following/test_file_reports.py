import logging
from collections import Counter
from pathlib import Path

import pytest

from agent.sources.lines.following.file_reports import FileReports
from agent.sources.logs.diagnosis import describe_consumer
from tests.agent.sources.lines.spoken import JOINING, REBALANCING, says, signals


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_glob_without_a_file_is_warned_of_while_it_lasts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reports = FileReports("logs", ("/var/log/none/*.log",))

    for now in (0.0, 5.0, 599.0, 600.0):
        reports.report_scan((), now)

    assert messages(caplog) == ["log_glob_without_files"] * 2


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("app", "found a folder"), ("app.zip", "found a packed file"), ("*.xz", "found a packed")],
)
def test_glob_of_what_is_not_followed_says_what_was_found(
    pattern: str, found: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "app").mkdir()
    for name in ("app.zip", "app.log.1.xz"):
        (tmp_path / name).write_bytes(b"PK")
    reports = FileReports("logs", (f"{tmp_path}/{pattern}",))

    reports.report_scan((), 0.0)

    assert caplog.records[0].__dict__["hint"].startswith(found)


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


def test_blind_file_is_named_by_its_head(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = tmp_path / "app.log"
    log.write_text('INFO [ConsumerGroup] Consumer has joined the group {"groupId": "pay"}\n' * 20)
    reports = FileReports("logs", (str(log),))
    reports.describe = describe_consumer

    reports.report_read(str(log), log.stat().st_size, 20, [], behind=False)

    (record,) = caplog.records
    assert record.__dict__["hint"].startswith("found kafkajs: its logger must keep the fields")


def test_file_with_causes_and_no_end_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    reports = FileReports("logs", ("/*.log",))
    cause = signals(says(REBALANCING))

    reports.report_read(
        "/good.log", 100, 9, signals(says(REBALANCING), says(JOINING)) * 4, behind=False
    )
    for _ in range(5):
        reports.report_read("/warn.log", 100, 1, cause, behind=False)

    assert messages(caplog) == ["log_without_ends"]
    assert caplog.records[0].__dict__["path"] == "/warn.log"


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


def test_file_of_consumers_without_a_group_is_not_blind(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    reports = FileReports("logs", ("/*.log",))

    for _ in range(3):
        reports.report_manual("/flink.log")
        reports.report_read("/flink.log", 100, 15, [], behind=False)

    counts = reports.files["/flink.log"]
    assert (counts.needs_member, counts.has_no_group) == (False, True)
    assert messages(caplog) == ["log_without_group"]


def test_member_beside_a_consumer_without_a_group_counts() -> None:
    reports = FileReports("logs", ("/*.log",))

    reports.report_manual("/a.log")
    reports.report_read("/a.log", 100, 1, signals(says(REBALANCING)), behind=False)

    assert not reports.files["/a.log"].has_no_group


QUARKUS = (
    b"INFO  [io.sma.rea.mes.kafka] (x) SRMSG18257: Kafka consumer c belongs to the 'pay' group\n"
)


def muted(folder: Path, read_bytes: int = len(QUARKUS)) -> FileReports:
    """Return the reports of a log that was read, a minute after it was found."""
    path = folder / "app.log"
    path.write_bytes(QUARKUS)
    reports = FileReports("logs", (f"{folder}/*.log",))
    reports.describe = describe_consumer
    reports.report_open(str(path))
    reports.report_scan((path,), 0.0)
    reports.report_read(str(path), read_bytes, 0, [], behind=False)
    return reports


def test_file_of_a_muted_consumer_is_warned_of_once_and_blind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reports = muted(tmp_path)
    path = tmp_path / "app.log"

    for now in (59.0, 60.0, 120.0):
        reports.report_scan((path,), now)

    assert messages(caplog) == ["log_without_members"]
    assert "Quarkus mutes Kafka's clients" in caplog.records[0].__dict__["hint"]
    assert reports.files[str(path)].needs_member


def test_file_of_a_consumer_that_has_printed_a_member_is_not_muted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reports = muted(tmp_path)
    path = tmp_path / "app.log"

    reports.report_read(str(path), 100, 1, signals(says(REBALANCING)), behind=False)
    reports.report_scan((path,), 60.0)

    assert messages(caplog) == []


def test_file_that_a_restart_goes_on_in_is_not_judged_by_its_head(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reports = muted(tmp_path, read_bytes=10)

    reports.report_scan((tmp_path / "app.log",), 60.0)

    assert messages(caplog) == []


def test_empty_file_is_judged_once_it_has_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reports = muted(tmp_path, read_bytes=0)
    path = tmp_path / "app.log"

    reports.report_scan((path,), 60.0)
    assert messages(caplog) == []
    reports.report_read(str(path), len(QUARKUS), 0, [], behind=False)
    reports.report_scan((path,), 61.0)

    assert messages(caplog) == ["log_without_members"]


@pytest.mark.parametrize(
    "head",
    [
        b"INFO o.a.k.clients.producer.ProducerConfig - ProducerConfig values:",
        b"sent to kafka: order 17",
        b"INFO [Consumer clientId=c, groupId=null] Seeking to offset 7",
        b"",
    ],
)
def test_log_of_a_producer_is_no_muted_consumer(head: bytes) -> None:
    assert describe_consumer(head) is None


def test_client_of_a_group_whose_lines_show_no_member_is_muted() -> None:
    found = describe_consumer(b"INFO [Consumer clientId=c-1, groupId=pay] Fetch position 7")

    assert found is not None
    assert "set the logger org.apache.kafka.clients.consumer to INFO" in found
