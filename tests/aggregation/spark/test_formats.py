"""Delta and Iceberg hold each id once, too; few files, and the days that are to be kept."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.cli.spark_jars import find_jars
from aggregation.spark.errors import SparkSetupError
from aggregation.spark.session.jars import Need
from tests.aggregation.spark.conftest import QUICK_JVM
from tests.aggregation.spark.table_story import SMALL_FILES

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.timeout(1000)
def test_batches_that_come_twice_are_there_once_and_small_files_merged(
    kind: str, tmp_path: Path
) -> None:
    try:
        find_jars([Need(kind)], None, print, offline=False)
    except SparkSetupError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no jars: {error}")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tests.aggregation.spark.table_story", kind, tmp_path / "t"],
        env=os.environ | {"JAVA_TOOL_OPTIONS": QUICK_JVM},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "appended": [4] * (1 + SMALL_FILES) + [0],
        "once": True,
        "files": [1 + SMALL_FILES, 1],
        "days": ["2025-11-25"],
        "rows": 4 * SMALL_FILES,
        "comment": "Time of the event (UTC)",
    }
