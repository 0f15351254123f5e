"""Recorded logs of real clients and brokers, and the true actions of each member."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import main

TRUTH = Path(__file__).parents[2] / "golden" / "truth"
CASES: dict[str, tuple[list[str], dict[str, list[int]]]] = {
    "broker-coordinator-move": (
        ["broker_log:server-1.log", "broker_log:server-2.log"],
        {"m1": [2, 0, 1, 0, 1, 0, 1, 0, 1, 0, 6, 0], "m2": [2, 0, 1, 0, 1, 0, 6, 0]},
    ),
    # m3 joins at a coordinator that stops, and joins the next one under another member id
    "broker-coordinator-stops": (
        ["broker_log:server-1.log", "broker_log:server-3.log"],
        {
            "m1": [2, 0, *(1, 0) * 4, 6, 0],
            "m2": [2, 0, 1, 9, 0, 1, 0, 6, 0],
            "m3": [2, 0, 6, 0],
        },
    ),
    # two workers with different config topics: each assignment has an error, for 29 s; cut
    "connect-config-mismatch": (
        ["logs:w1.log", "logs:w2.log"],
        {"w1": [6, 0], "w2": [*(1, 0) * 2, 1, 6, 0]},
    ),
    "cooperative-2.5": (["logs:m1.log"], {"m1": [2, 0, 1, 10, 0, 1, 10, 0, 1, 0]}),
    "cooperative-2.5, with its capture": (
        ["logs:m1.log", "pcap:wire.pcap.gz"],
        {
            "m1": [2, 0, 1, 10, 0, 1, 10, 0, *(1, 0) * 5, 6, 0],
            "m2": [2, 0, 1, 0, 1, 10, 0, *(1, 0) * 4, 6, 0],
            "m3": [2, 0, 1, 0, 1, 10, 0, 1, 0, 6, 0],
            "m4": [2, 0, 6, 0],
        },
    ),
    # topics without owned partitions behind them: read, or each join would be a 3 or an 8
    "kafka-go-subscription": (
        ["pcap:wire.pcap.gz"],
        {"m1": [1, 0, 1, 3, *(0, 1) * 4, 3], "m2": [3, 0, 6, 0]},
    ),
    "java-2.6-rebalance-failed": (["logs:m1.log"], {"m1": [9, 0, 9, 0, 9, 0, 1, 0, 6, 0]}),
    # dropped, and back: what the coordinator asks of it after that counts
    "kafka-python-1.4": (["logs:m2.log"], {"": [5, 0, 1, 0, 6, 0]}),
    "kafka-python-1.4, the other member": (["logs:m1.log"], {"": [*(1, 0) * 4, 6, 0]}),
    "kafka-python-2.0": (["logs:app.log"], {"": [1, 0, 5, 0, *(1, 0) * 3, 6, 0]}),
    "kafkajs": (["logs:m1.log"], {"m1": [*(1, 0) * 6, 6, 0]}),
    "leave-while-joining": (["logs:m2.log", "broker_log:server.log"], {"m2": [2, 0, 1, 6, 0]}),
    "maxpoll-default-level": (["logs:m1.log"], {"app": [5]}),
    # the callback has the facility and the message, but no name of the client
    "php-rdkafka": (["logs:m1.log"], {"m1": [2, 0, 1, 0, 5, 0, 1, 0, 6, 0]}),
    "re2j": (["logs:m1.log"], {"m1": [2, 0, 1, 0, 1, 10, 0, 1, 0, 8, 10, 0, 1, 0, 6, 0]}),
    # m1 waits for m2, which processes longer than its session and comes back
    "ruby-kafka-1.5": (
        ["logs:m1.log", "logs:m2.log"],
        {"m1": [*(1, 0) * 3, 6, 0], "m2": [3, 0, 6, 0]},
    ),
    "share-late-subscription": (
        ["logs:m1.log"],
        {"m1": [2, 0, 1, 0, 1, 10, 0, 1, 0, 1, 0, 6, 0]},
    ),
    "share-late-subscription, on the wire": (
        ["pcap:wire.pcap.gz"],
        {"m1": [2, 0, 1, 0, 1, 10, 0, 1, 0, 1, 0, 6, 0], "m2": [2, 0, 1, 0, 6, 0]},
    ),
    "share-late-subscription, with its capture": (
        ["logs:m1.log", "pcap:wire.pcap.gz"],
        {"m1": [2, 0, 1, 0, 1, 10, 0, 1, 0, 1, 0, 6, 0], "m2": [2, 0, 1, 0, 6, 0]},
    ),
    "streams-4.4-app-server": (["logs:s2.log"], {"s2": [10, 0]}),
    # a join after a leave is a new member's: the subscription before the leave does not count
    "subscription-after-leave": (
        ["pcap:wire.pcap.gz"],
        {"m1": [2, 0, 1, 0, 6, 0, 2, 0, 1, 0, 6, 0]},
    ),
    # its log names the instance id, its requests the client id: one member, by its member id
    "franz-static": (
        ["logs:m1.log", "pcap:wire.pcap.gz"],
        {"m1": [1, 10, 0, 1, 0, 1, 10, 0, 1, 0, 1, 0], "m2": [1, 0, 3, 0, 1, 0], "i-m1": []},
    ),
    # the log's stamps are an hour ahead: member id and generation make one event of both
    "zone-ahead": (
        ["logs:app-berlin.log", "pcap:wire.pcap.gz"],
        {"live_tz-m2": [2, 0, 5, 0, 1, 0, 6, 0]},
    ),
}
"""Logs and captures, and the sequence of each member that is compared; [] is no member.

What stands behind a folder's name tells cases with the same recording apart.
"""


def test_every_case_is_compared() -> None:
    assert {folder.name for folder in TRUTH.iterdir()} == {case.partition(",")[0] for case in CASES}


@pytest.mark.parametrize("case", CASES)
def test_members_of_a_recorded_log_did_what_they_did(case: str) -> None:
    inputs, wanted = CASES[case]
    folder = TRUTH / case.partition(",")[0]
    paths = [f"{kind}:{folder / name}" for kind, name in (each.split(":") for each in inputs)]

    done = CliRunner().invoke(main, ["replay", "--timezone", "UTC", *paths])

    assert "not read" not in done.stderr
    found: dict[str, list[int]] = {}
    for row in map(json.loads, done.stdout.splitlines()):
        if row["kind"] in {"transition", "lost"}:
            found.setdefault(row["client_id"], []).append(row["to"])
    assert {member: found.get(member, []) for member in wanted} == wanted


def test_loop_of_failed_assignments_is_one_incident() -> None:
    """Each of its rounds stays a rebalance; the leave of one of the workers ended the loop."""
    logs = [str(TRUTH / "connect-config-mismatch" / f"{name}.log") for name in ("w1", "w2")]
    argv = ["replay", "--source", "logs", "--timezone", "UTC", "--signals", *logs]
    records = CliRunner().invoke(main, argv).stdout
    argv = ["explain", "mis", "--from", "-", "--last", "100", "--output"]
    answer = json.loads(CliRunner().invoke(main, [*argv, "json"], input=records).stdout)
    text = CliRunner().invoke(main, [*argv, "text"], input=records).stdout

    first, loop, last = answer["incidents"]
    assert [first["kind"], last["kind"]] == ["member_joined", "member_left"]
    assert (loop["kind"], loop["detail"]["error"]) == ("task_configuration", "CONFIG_MISMATCH")
    assert loop["reason"].startswith("Assignment{error=1, leader='w1-")
    assert len(loop["rebalances"]) == 5
    assert loop["recommendations"][0]["setting"] == "config.storage.topic"
    # w2 stopped its connectors for its leave, after w1 had joined
    assert [each["client_id"] for each in loop["waiting_for"]] == ["w2"]
    words = "28.9 s a worker's configuration is behind, or another one (CONFIG_MISMATCH)"
    assert words in " ".join(text.split())
