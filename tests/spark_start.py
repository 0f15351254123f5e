"""How tests start Spark: queries run as planned, and its classes are in an archive (AppCDS).

``python -m tests.spark_start`` makes the archive, once for a Java and a Spark, in the cache folder:
a minute, 200 MB. It takes a quarter of the CPU time off a small ingest. No test needs it: a
JVM passes over an archive that does not fit it. Those of two checkouts are kept.
"""

import os
import shlex
import shutil
import sys
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

# what is generated, and planned anew meanwhile, costs more than a few rows do
_AS_PLANNED = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_DUMP_S = 300


def archive() -> Path | None:
    """Return where the archive is or would be; None: there is no Spark or no Java."""
    java, spark = shutil.which("java"), find_spec("pyspark")
    if java is None or spark is None or spark.origin is None:
        return None
    made_of = [Path(java).resolve(), Path(spark.origin).with_name("jars")]
    text = " ".join(f"{path} {path.stat().st_mtime_ns}" for path in made_of)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    name = f"spark-1-{sha256(text.encode()).hexdigest()[:16]}.jsa"
    return Path(base, "kafka-rebalance-agent", "tests", name)


def shared_classes() -> str:
    """Return the option of a JVM that takes them from the archive, where there is one."""
    made = archive()
    return f"-XX:SharedArchiveFile={made}" if made is not None and made.exists() else ""


def submit_arguments(java_options: str | None = None) -> str:
    """Return options of ``spark-submit``; without Java's own, the JVM takes the archive."""
    options = shared_classes() if java_options is None else java_options
    settings = _AS_PLANNED | {"spark.driver.extraJavaOptions": options}
    return shlex.join(word for item in settings.items() for word in ("--conf", "=".join(item)))


def pyspark_arguments(java_options: str | None = None) -> str:
    """Return what PYSPARK_SUBMIT_ARGS says."""
    return f"{submit_arguments(java_options)} pyspark-shell"


def _make(wanted: Path) -> None:
    from agent.cli.ingest import ingest  # noqa: PLC0415 - not what tests begin with
    from agent.cli.report import report  # noqa: PLC0415
    from aggregation.spark.session import session  # noqa: PLC0415
    from tests.aggregation.spark.histories import fleet, write_spool  # noqa: PLC0415

    wanted.parent.mkdir(parents=True, exist_ok=True)
    known = sorted(wanted.parent.glob("spark-*.jsa"), key=lambda path: path.stat().st_mtime)
    for old in known[:-1]:
        old.unlink()
    session._JVM_END_S = _DUMP_S
    with TemporaryDirectory(dir=wanted.parent) as folder:
        made, spool, tables = (Path(folder, name) for name in (wanted.name, "spool", "tables"))
        write_spool(spool, fleet(2, days=1, sampled_every_s=7200).samples)
        os.environ["PYSPARK_SUBMIT_ARGS"] = pyspark_arguments(f"-XX:ArchiveClassesAtExit={made}")
        with session.spark_session("classes", lambda _: None):
            for command, *words in (
                (ingest, "--from", spool, "--tables", tables, "--once"),
                (report, "--tables", tables, "--output", Path(folder, "report")),
            ):
                command.main([str(word) for word in words], standalone_mode=False)
        made.rename(wanted)


if __name__ == "__main__":
    to_make = archive()
    if to_make is not None and not to_make.exists():
        sys.stderr.write(f"making {to_make} (once) ...\n")
        _make(to_make)
