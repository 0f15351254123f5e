"""The log of a Spark session goes with it, wherever it is."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aggregation.spark.session import session


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_a_session_ends_well_after_a_cleaner_took_its_log(
    is_cleaned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def run(*_: object) -> Iterator[None]:
        yield

    monkeypatch.setattr(session, "_running_session", run)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    with session.spark_session("test", lambda _: None):
        (log,) = tmp_path.iterdir()
        if is_cleaned:
            log.unlink()

    assert list(tmp_path.iterdir()) == []
