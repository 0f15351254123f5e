"""Runs what failed once more, alone; what passes then is told as flaky, never passed over.

Real brokers and clients on a busy machine now and then show a flaw that nothing else shows. One
such test must not hold a day's work back, and many are no accident: Kafka's own build asks as much
and as little of its tests (`maxTestRetries`, `maxTestRetryFailures`).
"""

import json
import sys
from pathlib import Path

import click
import pytest

LIMIT = 3
"""More failures than these are no accident."""
_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main() -> int:
    """Return pytest's exit code of the second run, or 1 where there is none."""
    failed = sorted(json.loads(_FAILED.read_text())) if _FAILED.exists() else []
    if not 0 < len(failed) <= LIMIT:
        click.echo(f"{len(failed)} failures: not run again (1 to {LIMIT} would be)", err=True)
        return 1
    names = "\n  ".join(failed)
    click.echo(f"\nOnce more, alone:\n  {names}", err=True)
    code = pytest.main(["--last-failed", "--last-failed-no-failures=none"])
    if code == pytest.ExitCode.OK:
        click.echo(f"FLAKY, to be corrected; failed above, passed alone:\n  {names}", err=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
