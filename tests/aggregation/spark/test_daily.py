"""The daily rows that news are made of: annotations are of the groups that they mean."""

from datetime import UTC, date, datetime
from string import Template
from typing import Any

import pytest
from pyspark.sql import SparkSession

from aggregation.spark.report.daily import QUERY
from aggregation.spark.rollups.rollups import ROLLUPS

pytestmark = pytest.mark.spark
DAY = date(2026, 3, 4)
AT = datetime(2026, 3, 4, 12, tzinfo=UTC)
GROUPS = [("eu", "shop", "cart"), ("eu", "shop", "orders"), ("eu", "etl", "sink")]
OTHERS = [("us", "shop", "cart")]


def row(what: str, cluster: str, app: str, group: str | None, **fields: Any) -> tuple[Any, ...]:
    given = {"what": what, "cluster": cluster, "app": app, "group": group, "day": DAY, "times": 1}
    return tuple((given | fields).get(name) for name in ROLLUPS.names)


@pytest.mark.parametrize(
    ("cluster", "app", "group", "groups", "apps"),
    [
        ("eu", "", "cart", {("eu", "cart")}, {("eu", "shop")}),
        ("", "", "orders", {("eu", "orders")}, {("eu", "shop")}),
        ("eu", "shop", None, {("eu", "cart"), ("eu", "orders")}, {("eu", "shop")}),
        (
            "",
            "shop",
            None,
            {("eu", "cart"), ("eu", "orders"), ("us", "cart")},
            {("eu", "shop"), ("us", "shop")},
        ),
        ("eu", "", None, {("eu", None)}, {("eu", None)}),
        ("eu", "", "mistyped", {("eu", "mistyped")}, {("eu", "")}),
    ],
)
def test_annotation_is_of_the_groups_that_it_means(
    spark: SparkSession,
    cluster: str,
    app: str,
    group: str | None,
    groups: set[tuple[str, str | None]],
    apps: set[tuple[str, str | None]],
) -> None:
    """Whoever posts one may leave the cluster out, and the group or the application."""
    seen = [row("observed", *each) for each in (*GROUPS, *OTHERS)]
    note = row("annotation", cluster, app, group, last_at=AT, last_reason="release 7")
    spark.createDataFrame([*seen, note], ROLLUPS).createOrReplaceTempView("rollups")
    for by, wanted in (("group", groups), ("app", apps)):
        query = Template(QUERY).substitute(
            keys=f"cluster, `{by}`", first=f"DATE '{DAY}'", last=f"DATE '{DAY}'"
        )
        found = [each for each in spark.sql(query).collect() if each["what"] == "annotation"]
        assert {(each["cluster"], each[by]) for each in found} == wanted
        assert [each["times"] for each in found] == [1] * len(wanted)
