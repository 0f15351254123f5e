"""The exit of the Spark commands: one sentence on stderr and the exit code."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import click

from aggregation.spark.errors import SparkJobError, SparkSetupError
from aggregation.spark.session.session import require_spark


class _SetupFailure(click.ClickException):
    """A fault that the operator must fix first."""

    exit_code = 2


@contextmanager
def spark_exit() -> Iterator[None]:
    """Check that Spark is installed; turn its errors into exit codes.

    SIGTERM ends it as Ctrl-C does: temporary files are removed.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        require_spark()
        yield
    except SparkSetupError as error:
        raise _SetupFailure(str(error)) from error
    except SparkJobError as error:
        raise click.ClickException(str(error)) from error
    finally:
        signal.signal(signal.SIGTERM, before)
