import io

import pytest

from agent.demo.live_view import LiveView, Row, paint, rows, table
from metrics.model.status import RebalanceStatus

_PAGE = """\
# HELP kafka_consumer_rebalance_status x
# TYPE kafka_consumer_rebalance_status gauge
kafka_consumer_rebalance_status{app="shop",client_id="orders-1",group="orders",host="h"} 3.0
# HELP kafka_consumer_rebalance_status_peak x
# TYPE kafka_consumer_rebalance_status_peak gauge
kafka_consumer_rebalance_status_peak{app="shop",client_id="orders-1",group="orders",host="h"} 5.0
# HELP kafka_group_rebalance_status x
# TYPE kafka_group_rebalance_status gauge
kafka_group_rebalance_status{group="orders",group_type="classic"} 3.0
# HELP rebalance_agent_joins_unexplained_total x
# TYPE rebalance_agent_joins_unexplained_total counter
rebalance_agent_joins_unexplained_total 0.0
"""
_GROUP = Row(
    "kafka_group_rebalance_status",
    "orders",
    "",
    RebalanceStatus.UNKNOWN_MEMBER,
    RebalanceStatus.NONE,
)
_MEMBER = Row(
    "kafka_consumer_rebalance_status",
    "orders",
    "orders-1",
    RebalanceStatus.UNKNOWN_MEMBER,
    RebalanceStatus.DROPPED_GROUP,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_rows_hold_groups_before_their_members_with_their_peaks() -> None:
    assert rows(_PAGE) == [_GROUP, _MEMBER]


def test_the_table_shows_code_name_and_peak() -> None:
    assert table([_MEMBER])[1] == "  orders-1   3 UnknownMember         5 DroppedGroup"


def test_on_a_terminal_a_status_has_its_own_colour() -> None:
    assert table([_MEMBER], paint)[1] == (
        "  orders-1  \x1b[31m 3 UnknownMember        \x1b[m\x1b[31m 5 DroppedGroup\x1b[m"
    )


def test_without_a_terminal_each_change_is_one_line() -> None:
    out = io.StringIO()
    with LiveView(lambda: _PAGE, out, "demo") as view:
        view.caption("a host freezes")

    lines = [line.split("s  ", 1)[1] for line in out.getvalue().splitlines()]
    assert lines == ["a host freezes", "    orders/orders-1: 3 UnknownMember"]


@pytest.mark.parametrize("no_color", [False, True])
def test_no_color_redraws_nothing(*, no_color: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1" if no_color else "")
    out = Terminal()

    with LiveView(lambda: _PAGE, out, "demo"):
        pass

    assert ("\x1b[" in out.getvalue()) is not no_color


def test_an_agent_that_does_not_answer_shows_nothing() -> None:
    def refuse() -> str:
        raise ConnectionRefusedError

    out = io.StringIO()

    with LiveView(refuse, out, "demo"):
        pass

    assert out.getvalue() == ""
