"""Names of members in a report: replicas share a client id."""

import re

from aggregation.spark.report import stragglers, triggers


def row(host: str, client_id: str = "app", group: str = "pay") -> dict[str, object]:
    return {
        "cluster": "", "group": group, "client_id": client_id, "host": host, "waited_s": 60.0,
        "triggered": 3, "main_cause": 6,
    }  # fmt: skip


def test_replicas_are_named_by_their_hosts() -> None:
    rows = [row("pod-1"), row("pod-2"), row("h", "other"), row("h", group="b")]

    for section in (stragglers, triggers):
        chart = section.chart(rows)
        assert chart is not None
        names = re.findall(r"<span>([^<]*) · [^<]*</span>", str(chart.figure))
        assert names == ["pod-1", "pod-2", "other", "app"]
        assert "app on pod-1" in chart.alt


def test_a_client_id_of_one_member_needs_no_host() -> None:
    chart = stragglers.chart([row("h1"), row("h1", "other")])

    assert chart is not None
    assert "longest for app, " in chart.alt
