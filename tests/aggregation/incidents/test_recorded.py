"""Incidents of recorded groups, by the commands: replay of logs, then explain as JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent.cli import main

_RECORDED = Path(__file__).parents[2] / "golden" / "incidents"


def explain(case: str) -> list[dict[str, Any]]:
    """Return one document a cluster, of the only group in a case's logs."""
    logs = [str(path) for path in sorted((_RECORDED / case).glob("*.log"))]
    options = ["--source", "logs", "--timezone", "UTC", "--signals"]
    records = CliRunner().invoke(main, ["replay", *options, *logs]).stdout_bytes
    group = next(json.loads(line)["group"] for line in records.splitlines())
    asked = ["explain", group, "--from", "-", "--output", "json"]
    found = CliRunner().invoke(main, asked, input=records)
    return [json.loads(line) for line in found.stdout.splitlines()]


def got(incident: dict[str, Any]) -> tuple[str, list[str]]:
    return incident["kind"], [member["client_id"] for member in incident["members"]]


def test_dropped_member_that_is_not_back_is_ongoing() -> None:
    ((*_, last),) = [document["incidents"] for document in explain("dropped-member-still-out")]

    assert (got(last), last["ongoing"]) == (("poll_timeout", ["m1"]), True)
    assert [member["client_id"] for member in last["members_out"]] == ["m1"]


def test_rebalance_that_runs_is_one_incident_that_waits_for_one() -> None:
    ((*_, last),) = [document["incidents"] for document in explain("one-ongoing-told-as-three")]

    assert (got(last), last["ongoing"]) == (("member_joined", ["m3"]), True)
    (wait,) = last["waiting_for"]
    assert wait["client_id"] == "m1"
    assert wait["seconds"] == pytest.approx(4, abs=1)


@pytest.mark.parametrize("killed", ["m4", "m2"])
def test_killed_member_has_expired_and_does_not_return(killed: str) -> None:
    (document,) = explain("kill-told-as-rollout")
    (incident,) = [
        each for each in document["incidents"] if got(each) == ("session_expired", [killed])
    ]

    ways = [(each["how"], each["returned_at"]) for each in incident["departures"]]
    assert ways == [("expired", None)]


def test_group_of_which_some_logs_name_no_cluster_is_one_answer() -> None:
    (document,) = explain("one-group-two-clusters")

    assert document["cluster"] != ""
    assert len(document["incidents"]) == 8
