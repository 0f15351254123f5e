"""Prefixes before lines that show none by themselves, also behind a restart."""

import pytest

from agent.sources.lines.envelopes import known_prefixes as module
from agent.sources.lines.envelopes.known_prefixes import KnownPrefixes
from tests.agent.sources.lines.spoken import ARRIVAL_AT, parser

HEAD = "Group member (g,coor=<0.126.0>,cb=<0.124.0>,generation=3):"
DATED = "2026-11-27T11:03:06.350279+00:00 [info] "
FORMS = {
    "[pay-0] ": "pay-0",
    "pay-0: ": "pay-0",
    "2026-11-27T11:03:06.4Z app.pay-0: ": "app.pay-0",
    "2026-11-27 11:03:06 +0000 app.pay-0: ": "app.pay-0",
    "2026-11-27 11:03:06.400000000 +0000 app.pay-0: ": "app.pay-0",
}


@pytest.mark.parametrize("prefix", FORMS)
def test_line_below_a_head_has_the_name_of_the_head(prefix: str) -> None:
    known = KnownPrefixes()
    known.match(f"{prefix}{DATED}{HEAD}")

    found = known.match(f"{prefix}re-joining group, reason:rebalance_in_progress")

    assert found is not None
    assert (found.origin, found.end) == (FORMS[prefix], len(prefix))


def test_name_that_no_line_has_shown_is_part_of_the_text() -> None:
    known = KnownPrefixes()
    known.match(f"[pay-0] {DATED}{HEAD}")

    assert known.match("[pay-1] re-joining group") is None
    assert known.match("[pay-01] re-joining group") is None


def test_known_prefixes_are_bounded() -> None:
    known = KnownPrefixes()

    for number in range(3 * module._KNOWN_MAX):
        known.match(f"[pay-{number}] {DATED}{HEAD}")

    assert len(known.state()) == module._KNOWN_MAX
    assert known.match("[pay-0] text") is None


@pytest.mark.parametrize("prefix", FORMS)
def test_restart_between_a_head_and_its_text_loses_nothing(prefix: str) -> None:
    lines = f"{prefix}{DATED}{HEAD}\n", f"{prefix}re-joining group, reason:unknown_member_id\n"
    whole, before, after = parser(), parser(), parser()
    wanted = whole.feed("".join(lines).encode(), ARRIVAL_AT) + whole.flush()

    before.feed(lines[0].encode(), ARRIVAL_AT)
    after.restore(before.state())
    found = after.feed(lines[1].encode(), ARRIVAL_AT) + after.flush()

    assert [int(each.status or 0) for each in wanted] == [3]
    assert found == wanted


@pytest.mark.parametrize("logger", ["INFO", "ERROR", "42"])
def test_level_before_an_object_is_no_name(logger: str) -> None:
    found = KnownPrefixes().match(f'2026-11-27T11:03:06.4Z {logger}: {{"message":"text"}}')

    assert found is None or not found.origin
