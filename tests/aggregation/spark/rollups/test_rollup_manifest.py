"""Marks of batches: two reports at once."""

from datetime import date
from pathlib import Path

import pytest

from aggregation.spark.errors import SparkJobError
from aggregation.spark.rollups.rollup_manifest import PENDING, Manifest, RollupBatch

DAY, NEXT = date(2026, 3, 1), date(2026, 3, 2)
DONE = RollupBatch(files="whole")


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    found = Manifest(tmp_path)
    found.mark(DAY, DONE)
    return found


def test_report_that_adds_a_day_disturbs_no_other(manifest: Manifest) -> None:
    check = manifest.pin()
    manifest.mark(NEXT, DONE)
    check()


def test_replaced_rows_are_an_error_for_the_report_that_reads_them(manifest: Manifest) -> None:
    check = manifest.pin()
    manifest.mark(DAY, PENDING)
    manifest.mark(DAY, DONE)  # complete again, and of the same files
    with pytest.raises(SparkJobError, match="another report has replaced batch=2026-03-01"):
        check()


def test_removed_batch_is_one_too(manifest: Manifest) -> None:
    check = manifest.pin()
    manifest.forget(DAY)
    with pytest.raises(SparkJobError, match="run it again"):
        check()
