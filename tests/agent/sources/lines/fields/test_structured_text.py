import json

import pytest

from agent.sources.lines.fields.structured_text import _read_wordy, structure

TEXT = "[INFO] heartbeat errored; group: g, err: REBALANCE_IN_PROGRESS: it is rebalancing"
LINES = [
    (
        'time=2026-11-20T13:20:05Z level=INFO msg="heartbeat errored" '
        'err="REBALANCE_IN_PROGRESS: it is rebalancing" group=g'
    ),
    (
        "2026-11-20T13:20:05Z\tinfo\tkzap@v1.1.2/kzap.go:114\theartbeat errored\t"
        '{"group": "g", "err": "REBALANCE_IN_PROGRESS: it is rebalancing"}'
    ),
    (
        '2026/11/20 13:20:05 INFO heartbeat errored group=g err="REBALANCE_IN_PROGRESS: it is '
        'rebalancing"'
    ),
    (
        "INFO[11-20|13:20:05] heartbeat errored                    group=g "
        'err="REBALANCE_IN_PROGRESS: it is rebalancing"'
    ),
    (
        "INFO[2026-11-20T13:20:05Z]/app/kgo.go:12 example.com/app.(*kgo).beat() heartbeat errored"
        '                         group=g err="REBALANCE_IN_PROGRESS: it is rebalancing"'
    ),
    (
        "2026-11-20T13:20:05.000Z INF 12 kgo.go:12 > heartbeat errored group=g "
        'err="REBALANCE_IN_PROGRESS: it is rebalancing"'
    ),
    (
        "2026/11/20 13:20:05.000 [I] [kgo.go:12]  heartbeat errored group=g "
        'err="REBALANCE_IN_PROGRESS: it is rebalancing"'
    ),
    (
        "INFO ts=2026-11-20T13:20:05Z caller=kgo.go:12 msg=heartbeat errored group=g "
        'err="REBALANCE_IN_PROGRESS: it is rebalancing"'
    ),
    '10:00AM INF heartbeat errored err="REBALANCE_IN_PROGRESS: it is rebalancing" group=g',
]


@pytest.mark.parametrize("line", LINES)
def test_layouts_of_fields_give_one_text(line: str) -> None:
    assert structure(line, "", None) == TEXT


def test_fields_of_json_give_the_same_text_in_any_order() -> None:
    fields = {
        "level": "info",
        "err": "REBALANCE_IN_PROGRESS: it is rebalancing",
        "msg": "heartbeat errored",
        "group": "g",
    }

    assert structure("heartbeat errored", "INFO", fields) == TEXT


def test_error_that_a_logger_writes_as_an_object_is_written_as_go_does() -> None:
    """As Centrifugo 6, by zerolog's Interface."""
    line = (
        '{"level":"info","consumer":"orders","group":"g","err":{"Message":"REBALANCE_IN_PROGRESS",'
        '"Code":27,"Retriable":false,"Description":"it is rebalancing"},'
        '"time":"2026-11-27T14:58:10Z","message":"heartbeat errored"}'
    )

    found = structure("heartbeat errored", "info", json.loads(line))

    assert found == f"{TEXT}, consumer: orders"


@pytest.mark.parametrize("line", ["no field at all", "", '{"broken', "a sentence: with a colon"])
def test_line_without_fields_has_no_structured_text(line: str) -> None:
    assert structure(line, "", None) is None


def test_empty_and_null_fields_are_written_as_franz_go_does() -> None:
    fields: dict[str, object] = {"group": "g", "instance_id": None, "lost": {}, "generation": 3}

    assert structure("joined", "info", fields) == (
        "[INFO] joined; group: g, instance_id: <nil>, generation: 3, lost: "
    )


@pytest.mark.parametrize("line", LINES)
def test_fields_of_a_store_around_a_line_do_not_hide_its_own(line: str) -> None:
    store = {"message": line, "kubernetes": {"pod_name": "p-1"}, "severity": "INFO"}

    assert structure(line, "INFO", store) == TEXT


def test_values_with_blanks_are_read_in_linear_time() -> None:
    """Squares of these 16 MB would take an hour."""
    one = f"why=heartbeat is over{' ' * 8000}!\t"

    found = list(_read_wordy(one * 2_000 + "err=not a member reason=left  lost=a=b"))

    assert len(found) == 2_002
    assert found[-2:] == [("err", "not a member"), ("reason", "left")]
