"""The exit of the Spark commands: one sentence on stderr and the exit code."""

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
    """Check that Spark is installed; turn its errors into exit codes."""
    try:
        require_spark()
        yield
    except SparkSetupError as error:
        raise _SetupFailure(str(error)) from error
    except SparkJobError as error:
        raise click.ClickException(str(error)) from error
