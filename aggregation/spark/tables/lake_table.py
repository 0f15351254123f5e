"""One table of Delta or Iceberg: each change is one commit.

A reader sees a table before or after a commit, never in between. A table is in a folder, at a URL,
or in a namespace of a catalog that the user's ``spark-defaults.conf`` configures.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - pyspark's own convention
from pyspark.sql.types import StructField

from aggregation.spark.tables.dictionary import TABLES as DICTIONARY
from aggregation.spark.tables.table_place import TableFormat, is_catalog

_CATALOG = "spark.sql.catalog."
# Iceberg keeps one metadata file per commit, and an ingest commits every few seconds.
_ICEBERG_PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTable:
    """A table of a place; ``stored_in`` is a path, a URL, or CATALOG.NAMESPACE."""

    stored_in: str
    format: TableFormat
    table: str

    def name(self, spark: SparkSession) -> str:
        """Return the SQL name; outside of a catalog Iceberg's name is the path itself."""
        if self.format is TableFormat.DELTA:
            return f"delta.`{self._path.replace('`', '``')}`"
        if is_catalog(self.stored_in):
            return f"{self.stored_in}.{self.table}"
        catalog = f"tables_{sha256(self.stored_in.encode()).hexdigest()[:12]}"
        spark.conf.set(_CATALOG + catalog, "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set(f"{_CATALOG}{catalog}.type", "hadoop")
        spark.conf.set(f"{_CATALOG}{catalog}.warehouse", self.stored_in)
        # a cached table would hide commits of other processes
        spark.conf.set(f"{_CATALOG}{catalog}.cache-enabled", "false")
        return f"{catalog}.{self.table}"

    @property
    def _path(self) -> str:
        return f"{self.stored_in}/{self.table}"

    def create(self, empty: DataFrame, by: Sequence[str]) -> None:
        """Commit an empty table, if there is none, so that an append never leaves loose files.

        A table of an earlier release gets the columns that it lacks.
        """
        self._create(with_comments(empty, self.table), by)
        self.add_columns(empty)

    def _create(self, described: DataFrame, by: Sequence[str]) -> None:
        if self.format is TableFormat.DELTA:
            writer = described.write.format(self.format).mode("ignore").partitionBy(*by)
            writer.save(self._path)
            return
        spark = described.sparkSession
        if is_catalog(self.stored_in):
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.stored_in}")
        if self._exists(spark):
            return
        creation = described.writeTo(self.name(spark)).using(self.format)
        for key, value in _ICEBERG_PROPERTIES.items():
            creation = creation.tableProperty(key, value)
        creation.partitionedBy(*map(F.col, by)).create()

    def _exists(self, spark: SparkSession) -> bool:
        """Return whether there is the table of Iceberg, by the catalog's list of tables.

        Where there is no table, Spark's own check looks for a view, and a JDBC catalog of Iceberg
        refuses to: by default its schema (``jdbc.schema-version`` V0) has none.
        """
        if not is_catalog(self.stored_in):
            return spark.catalog.tableExists(self.name(spark))
        found = spark.sql(f"SHOW TABLES IN {self.stored_in} LIKE '{self.table}'").collect()
        return self.table in {row["tableName"] for row in found}

    def add_columns(self, empty: DataFrame) -> None:
        """Add the columns of ``empty`` that the table lacks."""
        spark = empty.sparkSession
        known = set(self.read(spark).columns)
        wanted = with_comments(empty, self.table).schema
        added = [_column_sql(field) for field in wanted if field.name not in known]
        if added:
            spark.sql(f"ALTER TABLE {self.name(spark)} ADD COLUMNS ({', '.join(added)})")

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the rows of the last commit."""
        if self.format is TableFormat.DELTA:
            return spark.read.format(self.format).load(self._path)
        return spark.table(self.name(spark))

    def append(self, rows: DataFrame) -> None:
        """Add rows."""
        if self.format is TableFormat.DELTA:
            rows.write.format(self.format).mode("append").save(self._path)
        else:
            rows.writeTo(self.name(rows.sparkSession)).append()

    def replace(self, rows: DataFrame, batches: Iterable[date]) -> None:
        """Put rows in the place of all rows of some batches."""
        days = sorted(batches)
        if self.format is TableFormat.DELTA:
            listed = ", ".join(f"DATE'{day}'" for day in days)
            writer = rows.write.format(self.format).mode("overwrite")
            writer.option("replaceWhere", f"batch IN ({listed})").save(self._path)
        else:
            rows.writeTo(self.name(rows.sparkSession)).overwrite(F.col("batch").isin(days))

    def expire(self, spark: SparkSession) -> None:
        """Remove files that were replaced days ago: five for Iceberg, seven for Delta."""
        name = self.name(spark)
        if self.format is TableFormat.DELTA:
            spark.sql(f"VACUUM {name}")
            return
        catalog, _, table = name.partition(".")
        spark.sql(f"CALL {catalog}.system.expire_snapshots(table => '{table}')").collect()


def _column_sql(field: StructField) -> str:
    text = str(field.metadata.get("comment", "")).replace("'", "\\'")
    return f"`{field.name}` {field.dataType.simpleString()} COMMENT '{text}'"


def with_comments(rows: DataFrame, table: str) -> DataFrame:
    """Return rows with columns that carry their text of the data dictionary."""
    described = DICTIONARY.get(table)
    if described is None:
        return rows
    return rows.select(
        *(
            F.col(f"`{name}`").alias(name, metadata={"comment": described[name].comment})
            for name in rows.columns
        )
    )
