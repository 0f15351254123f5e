"""The functions for users' own notebooks, and the example that calls them."""

import re
import runpy
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention

from aggregation.rebalances.rebalances import explain_rebalances
from aggregation.spark import api as functions
from aggregation.spark.api import (
    REBALANCES,
    ROLLUPS,
    bucket_of,
    group_rebalances,
    member_episodes,
    rebalance_rows,
)
from aggregation.spark.tables.schema import Table
from metrics.model.sample import Sample
from metrics.model.status import RebalanceStatus as S
from tests.aggregation.spark import oracle
from tests.aggregation.spark.conftest import Frame, table_of
from tests.aggregation.spark.histories import START_AT, Client, rebalance

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).parents[3] / "docs" / "report_example.py"


def history() -> list[Sample]:
    """Let c0 trigger twice and c1 once."""
    members = [Client(group="g", client_id=f"c{n}") for n in range(3)]
    rebalance(members, START_AT + 10, S.NEW_MEMBER, 4.0)
    rebalance(members, START_AT + 3600, S.SUBSCRIPTION_CHANGED, 8.0)
    rebalance([members[1], members[0], members[2]], START_AT + 7200, S.METADATA_CHANGED, 32.0)
    return [sample for member in members for sample in member.written]


def test_functions_that_are_offered_are_there_and_say_what_they_do() -> None:
    for name in functions.__all__:
        assert getattr(functions, name).__doc__


def test_steps_fit_into_each_other(frame: Frame) -> None:
    """From records to rebalances to rollups, as the module's docstring shows."""
    rebalances = group_rebalances(frame(history()))
    assert rebalances.columns == [name for name in REBALANCES.fieldNames() if name != "batch"]
    rows = rebalance_rows(rebalances.withColumn("batch", F.col("day")))
    assert rows.columns == ROLLUPS.fieldNames()
    causes = {row.code: row.times for row in rows.where("what = 'rebalance'").collect()}
    assert causes == {S.NEW_MEMBER: 1, S.SUBSCRIPTION_CHANGED: 1, S.METADATA_CHANGED: 1}


def test_bucket_holds_its_length(spark: SparkSession) -> None:
    lengths = [0.25, 1.0, 1.09, 1.1, 8.0, 3600.0]
    rows = spark.createDataFrame([(each,) for each in lengths], "length double")
    for length, bucket in rows.select("length", bucket_of(F.col("length"))).collect():
        assert 2 ** (bucket / 8) <= length < 2 ** ((bucket + 1) / 8)


def test_member_episodes_are_those_of_plain_python(frame: Frame) -> None:
    samples = history()
    rows = member_episodes(frame(samples)).where("state = 'ended'").collect()
    found = sorted((row.client_id, row.cause, row.seconds) for row in rows)
    truth = sorted((each.client_id, each.cause, each.seconds) for each in oracle.read(samples))
    assert found == [(name, cause, pytest.approx(s, abs=1e-5)) for name, cause, s in truth]


def tables_in(text: str) -> list[list[dict[str, str]]]:
    """Read the tables that `DataFrame.show` has printed."""
    found = []
    for block in re.findall(r"(?:^[+|].*\n)+", text, re.MULTILINE):
        cells = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in block.splitlines()
            if line.startswith("|")
        ]
        found.append([dict(zip(cells[0], row, strict=True)) for row in cells[1:]])
    return found


def test_example_prints_who_triggered_most_and_the_longest_episodes(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    samples = history()
    rows = table_of(spark, samples)
    rows.write.partitionBy("day").parquet(str(tmp_path / Table.TRANSITIONS))
    monkeypatch.setattr("sys.argv", [str(EXAMPLE), str(tmp_path)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    triggers, longest = tables_in(capsys.readouterr().out)

    lost = Counter[tuple[str, str]]()
    for episode in explain_rebalances(samples):
        member, code = episode.trigger.member, episode.trigger.code
        assert member is not None
        assert code is not None
        lost[member.client_id, str(code.value)] += episode.member_seconds  # type: ignore[assignment]
    assert [(row["client_id"], row["cause"], row["rebalances"]) for row in triggers] == [
        (client_id, cause, "1") for (client_id, cause), _ in lost.most_common()
    ]
    seconds = sorted((each.seconds or 0.0 for each in oracle.read(samples)), reverse=True)
    assert [float(row["seconds"]) for row in longest] == pytest.approx(seconds, abs=1e-5)


def test_example_without_a_folder_says_how_it_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [str(EXAMPLE)])
    with pytest.raises(SystemExit, match=r"python docs/report_example\.py TABLES"):
        runpy.run_path(str(EXAMPLE), run_name="__main__")
