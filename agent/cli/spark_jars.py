"""The jars of the Spark commands."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from aggregation.spark.session.jars import Need

Notify = Callable[[str], None]

_OFFLINE = click.option(
    "--offline", is_flag=True, help="Fetch no jars; take those that are in the folder."
)
_FOLDER = click.option(
    "--jars",
    "jars",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the jars of Kafka's source, Delta and Iceberg are kept "
    "[default: ~/.cache/kafka-rebalance-agent/spark-jars]",
)


def jar_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for jars to a command."""
    return _FOLDER(_OFFLINE(command))


def find_jars(
    needs: Iterable["Need"], folder: Path | None, notify: Notify, *, offline: bool
) -> Sequence[Path]:
    """Return the jars, fetched if necessary; none under spark-submit: it has its own.

    Raises:
        SparkSetupError: they cannot be fetched.

    """
    from aggregation.spark.session.jars import JarStore, default_folder  # noqa: PLC0415 - heavy
    from aggregation.spark.session.maven import repository  # noqa: PLC0415

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return ()
    place = folder or default_folder()
    store = JarStore(folder=place, repository=repository(), offline=offline)
    return store.fetch(needs, notify)


def jars_of_tables(tables: Path, notify: Notify) -> tuple[Sequence[Path], Mapping[str, str]]:
    """Return the jars and settings that a session needs for the tables' formats.

    Raises:
        SparkSetupError: jars cannot be fetched.

    """
    from aggregation.spark.rollups.rollup_tables import rollup_format  # noqa: PLC0415
    from aggregation.spark.session.jars import Need  # noqa: PLC0415 - not at start-up
    from aggregation.spark.tables.schema import formats  # noqa: PLC0415
    from aggregation.spark.tables.table_place import TableFormat, read_place  # noqa: PLC0415
    from aggregation.spark.tables.tables import session_settings  # noqa: PLC0415

    found = formats(tables) | {rollup_format(tables)}
    needs = [Need(each) for each in found - {TableFormat.PARQUET}]
    return find_jars(needs, None, notify, offline=False), session_settings(
        found, read_place(tables)
    )
