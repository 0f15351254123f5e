"""Explanations of groups that operators recorded: the fixtures' README lists their actions."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent.cli import main

_RECORDED = Path(__file__).parents[2] / "golden" / "incidents" / "groups"


def explain(case: str, group: str, *options: str) -> str:
    asked = ["explain", group, "--from", str(_RECORDED / f"{case}.jsonl"), *options]
    return CliRunner().invoke(main, asked, env={"COLUMNS": "0"}).stdout


def data(case: str, group: str = "payments") -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        explain(case, group, "--last", "1000", "--output", "json")
    )
    return document


def incident(document: dict[str, Any], kind: str) -> dict[str, Any]:
    (found,) = [each for each in document["incidents"] if each["kind"] == kind]
    return dict(found)


def test_ties_are_counted_by_member_and_the_costliest_is_named() -> None:
    answer = data("headline-tie")["answer"]

    assert "rebalances by member: payments-2 4, payments-3 4, payments-1 3" in answer
    assert "the costliest: payments-2 exceeded its poll interval" in answer
    assert answer.count("payments: ") == answer.count("payments ") + 1 == 1  # the group, once


def test_words_of_enforce_rebalance_are_its_own_alone() -> None:
    shown = explain("headline-tie", "payments")

    assert 'payments-3 enforced a rebalance: "new fraud rules"' in shown
    assert 'payments-3 restarted, 2 rebalances; "the consumer is being closed"' in shown


def test_nobody_is_named_for_added_partitions() -> None:
    assert incident(data("headline-tie"), "metadata_changed")["members"] == []


def test_each_departure_is_counted_once() -> None:
    document = data("departure-counted-twice")

    found = [
        (each["client_id"], each["how"], each["returned_at"] is not None)
        for one in document["incidents"]
        for each in one["departures"]
    ]
    assert found == [("payments-1", "expired", True), ("payments-2", "dropped", True)]


def test_time_of_the_members_is_one_number() -> None:
    document = data("lost-time-two-answers")

    assert document["member_seconds"] == pytest.approx(24.6, abs=0.05)
    assert document["member_seconds"] == pytest.approx(
        sum(each["cost"]["member_seconds"] for each in document["incidents"])
    )
    assert document["rebalances"] == 21
    assert "24.6 s of the members' time" in document["answer"]


def test_the_last_of_more_is_said() -> None:
    shown = explain("lost-time-two-answers", "payments", "--last", "3")

    assert "The last 3 of 17 incidents" in shown
    assert "Incidents (UTC), the last 3 of 17" in shown


def test_host_that_is_learned_late_is_one_member() -> None:
    document = data("host-flip-lane", "orders")

    hosts = {
        (member["client_id"], member["host"])
        for each in document["incidents"]
        for member in each["members"]
    }
    assert hosts == {("orders-1", "vm"), ("orders-2", "vm")}
    joined = [each for each in document["incidents"] if each["kind"] == "member_joined"]
    assert not any(each["ongoing"] for each in joined)


def test_join_after_a_failed_sync_is_no_new_member() -> None:
    document = data("invalid-request-newmember", "orders")

    failed = incident(document, "join_failed")
    assert [member["client_id"] for member in failed["members"]] == ["orders-2"]
    assert failed["detail"]["error"] == "INVALID_REQUEST"
    assert [each["generations"] for each in failed["rebalances"]] == [[5]]
    again = document["happened"][2]
    assert (again["client_id"], again["status"]) == ("orders-2", None)
    assert again["reason"] == "its join or sync failed (INVALID_REQUEST) and it joined again"


def test_connection_of_an_admin_alone_shows_the_removal() -> None:
    capture = str(_RECORDED / "admin-conn.pcap")
    shown = CliRunner().invoke(main, ["replay", "--source", "pcap", "--signals", capture]).stdout

    records = [json.loads(line) for line in shown.splitlines()]
    (note,) = [each for each in records if each["kind"] == "signal"]
    assert (note["group"], note["group_instance_id"]) == ("classic-static", "inst-a")
    assert note["reason"] == "ops-bad-host"
    (change,) = [each for each in records if each["field"] == "removed_by"]
    assert json.loads(change["after"])["client_id"] == "adminclient-1"
