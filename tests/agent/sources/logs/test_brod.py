"""brod's heads and what stands behind them, in the layouts of Erlang and Elixir."""

import json
import re

import pytest

from metrics.model.signals import Signal
from tests.agent.sources.lines.spoken import ARRIVAL_AT, got, parser

HEAD = "Group member (pay,coor={},cb=<0.124.0>,generation={}):"
MEMBER = "n@host/<0.126.0>-f12b85c3-04b1-4556-9c80-62fae0597f17"
REFUSED = f'{{member_id_required,<<"{MEMBER}">>}}'
ENTRIES = (
    (0, "failed to join group", f"reason: {REFUSED}"),
    (0, "re-joining group, reason:{member_id_required,", f'      <<"{MEMBER}">>}}'),
    (1, "elected=true"),
    (1, "assignments received:", "  orders:", "    partition=0 begin_offset=undefined"),
    (1, "re-joining group, reason:rebalance_in_progress"),
    (2, "elected=false"),
    (2, "assignments received:", "  orders:", "    partition=0 begin_offset=undefined"),
    (2, "Leaving group, reason: normal", ""),
)
WANTED = ["2", "join", "sync", "1", "join", "sync", "leave"]


def messages(process: str = "<0.126.0>") -> list[str]:
    return ["\n".join((HEAD.format(process, each[0]), *each[1:])) for each in ENTRIES]


def legacy(texts: list[str]) -> str:
    return "".join(
        f"=INFO REPORT==== 27-Nov-2026::11:03:0{i}.000000 ===\n{text}\n"
        for i, text in enumerate(texts)
    )


def in_elixir(text: str) -> str:
    """Return a message with terms as Elixir's logger prints them, whose formats inspect ~p.

    https://github.com/elixir-lang/elixir/blob/v1.14.5/lib/logger/lib/logger/utils.ex
    """
    terms = re.sub(r"(reason: ?\{?)(?=[a-z])", r"\1:", text)
    return (
        terms.replace("#PID<", "<")
        .replace("<0.", "#PID<0.", 1)
        .replace('<<"', '"')
        .replace('">>', '"')
    )


LAYOUTS = {
    "the legacy header": legacy(messages()),
    "single_line": "".join(
        f"2026-11-27T11:03:0{i}.000000+00:00 info: {text.replace(chr(10), ', ')}\n"
        for i, text in enumerate(messages())
    ),
    "Elixir's": "".join(
        f"\n2026-11-27 11:03:0{i}.000 [info] {text}\n"
        for i, text in enumerate(messages("#PID<0.126.0>"))
    ),
    "Elixir's terms": "".join(
        f"11:03:0{i}.000 [info] {in_elixir(text)}\n" for i, text in enumerate(messages())
    ),
    "JSON": "".join(
        json.dumps({"time": f"2026-11-27T11:03:0{i}.000Z", "severity": "info", "message": text})
        + "\n"
        for i, text in enumerate(messages())
    ),
    "the legacy header as strings of JSON": "".join(
        json.dumps(line) + "\n" for line in legacy(messages()).splitlines()
    ),
}


def read(log: str) -> list[Signal]:
    reader = parser()
    return reader.feed(log.encode(), ARRIVAL_AT) + reader.flush()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_is_read_with_its_times(layout: str) -> None:
    found = read(LAYOUTS[layout])

    assert got(found) == WANTED
    assert [round(each.at) % 60 for each in found] == [1, 2, 3, 4, 5, 6, 7]
    assert {each.member.group for each in found} == {"pay"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_first_answer_names_the_member(layout: str) -> None:
    member = read(LAYOUTS[layout])[-1].member

    assert (member.client_id, member.member_id) == ("n@host/<0.126.0>", MEMBER)


def test_line_below_another_head_is_no_message() -> None:
    text = "2026-11-27 11:03:00.000 [info] Vote of the members:\nelected=true\n"

    assert read(text) == []


def test_two_processes_of_a_node_stay_apart() -> None:
    both = [text for pair in zip(messages(), messages("<0.9.1>"), strict=True) for text in pair]

    assert sorted(got(read(legacy([text.replace("0.126", "0.9") for text in both])))) == sorted(
        WANTED * 2
    )


@pytest.mark.parametrize(
    ("error", "wanted"),
    [("unknown_member_id", "3"), ("illegal_generation", "4"), ("rebalance_in_progress", "1")],
)
@pytest.mark.parametrize("colon", ["", ":"])
@pytest.mark.parametrize(
    "joint", ["\n{}\n", ", {}, ", "{}\n"], ids=["three lines", "single_line", "a wrapped copy"]
)
def test_refused_join_shows_its_code_before_the_member_joins_again(
    joint: str, error: str, colon: str, wanted: str
) -> None:
    head = HEAD.format("<0.126.0>", 7)
    failed = joint.format("failed to join group")
    log = (
        f"2026-11-27 11:03:05.000 [info] {head}{failed}reason: {colon}{error}\n"
        f"2026-11-27 11:03:06.000 [info] {head}\nre-joining group, reason:{colon}{error}\n"
        f"2026-11-27 11:03:07.000 [info] {head}\nassignments received:\n"
    )

    found = read(log)

    assert got(found) == [wanted, wanted, "sync"]
    assert [round(each.at) % 60 for each in found] == [5, 6, 7]


def test_join_that_failed_for_no_reason_of_the_coordinator_has_no_code() -> None:
    head = HEAD.format("<0.126.0>", 7)

    found = read(f"2026-11-27 11:03:05.000 [info] {head}\nfailed to join group\nreason: timeout\n")

    assert "3" not in got(found)
    assert not {each for each in got(found) if each.isdigit()}
