"""A quiet, small Spark session.

The JVM's output goes to a log file, and an error names the file. Settings of a ``spark-submit`` or
of its configuration are never overridden. These settings are defaults for one machine.
"""

import logging
import os
import pwd
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from aggregation.spark.errors import SparkJobError, SparkSetupError
from aggregation.spark.session.java_home import java_environment
from aggregation.spark.tables.broken_file import unread_text

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

_NEEDED = ("pyspark", "pyarrow", "pandas")

_JVM_END_S = 20
_JVM_DIES_S = 10
"""How long Java may take to end after it has closed its connections."""
_OUT_OF_MEMORY = 52
"""Java's exit code: `SparkExitCode.OOM`."""
_JAVA_ERROR = re.compile(r"^(?:Caused by: |: )(?:[\w$]+\.)+([\w$]+: .+)$", re.MULTILINE)
_UNREAD_FILE = re.compile(
    r"\[FAILED_READ_FILE\.(?P<why>\w+)\] Encountered error while reading file (?P<url>\S+?)\.\s"
)

_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    # INT96, the default, is read by few tools and overflows in 2262
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # Parquet looks at a page's size after 100 rows only: those of states can have a MB each
    "spark.hadoop.parquet.page.size.row.check.min": "1",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    # the line of code behind each expression helps no user, and costs as much time as the rest
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

_ONE_MACHINE = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    # no .crc file beside each file, since a kill can leave it stale
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    # a worker's arrays of some MB are freed and wanted again at once: glibc keeps their pages
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(1 << 32),
}

_SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}

# a run of seconds never earns back the cost of the JVM's optimizing compiler
_QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def require_spark() -> None:
    """Check that the extra is installed before anything imports it, and that the user has a name.

    Raises:
        SparkSetupError: one of both is not so.

    """
    missing = [package for package in _NEEDED if find_spec(package) is None]
    if missing:
        raise SparkSetupError(
            f"not installed: {', '.join(missing)}; pip install 'kafka-rebalance-agent[spark]'"
        )
    _check_user(os.geteuid())


def _check_user(uid: int) -> None:
    """Check that the system knows the user: Hadoop's login fails without a name."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        entry = f"agent:x:{uid}:0::/tmp:/sbin/nologin"
        raise SparkSetupError(
            f"user id {uid} has no name, which Spark needs: run as a user of /etc/passwd, such as "
            f"the image's 12472, or add the line {entry!r} to that file"
        ) from None


@contextmanager
def spark_session(  # noqa: PLR0913 - one argument a choice
    name: str,
    notify: Callable[[str], None],
    *,
    keep_fds: Sequence[int] = (),
    jars: Sequence[Path] = (),
    settings: Mapping[str, str] | None = None,
    quick: bool = False,
) -> "Iterator[SparkSession]":
    """Start Spark and stop it at the end, or use the session that already runs.

    A process can start it once.

    The JVM holds the file descriptors ``keep_fds`` for as long as it lives. ``settings``, ``jars``
    and ``quick`` (the session has little to do) apply only to a session that is started here.

    Raises:
        SparkSetupError: no Java fits.
        SparkJobError: Spark did not start, or a query failed; the text names the log file.

    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 - of the extra [spark]
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    handle, name_of_log = tempfile.mkstemp(prefix="rebalance-agent-spark-", suffix=".log")
    log = Path(name_of_log)
    try:
        conf = _conf(name, jars, settings or {}, quick=quick)
        with (
            os.fdopen(handle, "wb") as file,
            _running_session(conf, notify, file.fileno(), keep_fds) as spark,
        ):
            try:
                yield spark
            except (PySparkException, Py4JError) as error:  # its text needs the JVM alive
                raise _SparkError(_gist(str(error))) from error
    except (_SparkError, PySparkException, Py4JError) as error:
        raise SparkJobError(f"Spark failed: {_gist(str(error))} (its log: {log})") from error
    except BaseException:
        log.unlink(missing_ok=True)
        raise
    log.unlink(missing_ok=True)  # a run of days outlives a cleaner of temporary files


@contextmanager
def small_queries(spark: "SparkSession") -> Iterator[None]:
    """Plan queries of few rows as small ones on one machine; a cluster keeps its settings.

    Spark's adaptive steps would cost more than the queries themselves.
    """
    chosen = _SMALL if str(spark.sparkContext.master).startswith("local") else {}
    before = {name: str(spark.conf.get(name)) for name in chosen}
    try:
        for name, value in chosen.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, was in before.items():
            spark.conf.set(name, was)


class _SparkError(Exception):
    """The text of a Spark error."""


@contextmanager
def _running_session(
    conf: "SparkConf", notify: Callable[[str], None], log_fd: int, keep_fds: Sequence[int]
) -> "Iterator[SparkSession]":
    from py4j.protocol import Py4JNetworkError  # noqa: PLC0415 - of the extra [spark]

    own = {"PYSPARK_PYTHON": sys.executable}
    if not _master_is_chosen():
        own["SPARK_LOCAL_IP"] = "127.0.0.1"  # a host name that nothing resolves stops Spark
    notify("starting Spark (about 5 s)")
    with _silent_py4j():
        with java_environment(os.environ, notify) as environ, _environ(own | environ):
            gateway = _launch(conf, log_fd, keep_fds)
            spark = _start(conf, gateway)
        try:
            yield spark
        except (Py4JNetworkError, ConnectionError) as error:
            if (code := _wait_for_death(gateway)) is not None:
                raise _SparkError(_explain_death(code)) from error
            raise
        finally:
            with suppress(Py4JNetworkError, ConnectionError):  # Java may be gone
                spark.stop()
            _end_jvm(gateway)


@contextmanager
def _silent_py4j() -> Iterator[None]:
    """Keep py4j's tracebacks out of a root logger without handlers."""
    silence = logging.NullHandler()
    logging.getLogger().addHandler(silence)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(silence)


def _wait_for_death(gateway: "JavaGateway") -> int | None:
    """Return the exit code of the JVM that was started here; None: it runs."""
    if gateway.proc is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        return int(gateway.proc.wait(_JVM_DIES_S))
    return None


def _explain_death(code: int) -> str:
    if code == -signal.SIGKILL:
        return "Java was killed, as the system does where memory is short"
    if code != _OUT_OF_MEMORY:
        return f"Java ended with code {code}"
    more = "PYSPARK_SUBMIT_ARGS='--master local[2] --driver-memory 4g pyspark-shell'"
    return f"Java ran out of memory, which has 1 GiB by default; {more} gives it 4 GiB"


def _conf(
    name: str, jars: Sequence[Path], settings: Mapping[str, str], *, quick: bool
) -> "SparkConf":
    from pyspark import SparkConf  # noqa: PLC0415 - of the extra [spark]

    own = _ONE_MACHINE | (_QUICK if quick else {})
    chosen = _ALWAYS if _master_is_chosen() else _ALWAYS | own
    conf = SparkConf(loadDefaults=False).setAppName(name)
    conf.setAll(list((chosen | dict(settings)).items()))
    if jars:
        conf.set("spark.jars", ",".join(map(str, jars)))
    return conf


def _launch(conf: "SparkConf", log_fd: int, keep_fds: Sequence[int]) -> "JavaGateway":
    """Start the JVM; under spark-submit, connect to the one that runs."""
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - of the extra [spark]

    return launch_gateway(  # type: ignore[no-untyped-call]
        conf=conf,
        popen_kwargs={"stdout": log_fd, "stderr": log_fd, "pass_fds": tuple(keep_fds)},
    )


def _start(conf: "SparkConf", gateway: "JavaGateway") -> "SparkSession":
    from pyspark import SparkContext  # noqa: PLC0415 - of the extra [spark]
    from pyspark.sql import SparkSession  # noqa: PLC0415

    try:
        return SparkSession(SparkContext(gateway=gateway, conf=conf))
    except BaseException:
        _end_jvm(gateway)
        raise


def _end_jvm(gateway: "JavaGateway") -> None:
    """End the JVM that was started here; pyspark would keep it until this process ends.

    pyspark never forgets a gateway, so a process has Spark once.
    """
    if gateway.proc is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_JVM_END_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()


def _master_is_chosen() -> bool:
    """Return whether spark-submit, the environment or spark-defaults.conf names a master."""
    defaults = Path(os.environ.get("SPARK_CONF_DIR", ""), "spark-defaults.conf")
    return (
        "PYSPARK_GATEWAY_PORT" in os.environ
        or "MASTER" in os.environ
        or "--master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")
        or ("SPARK_CONF_DIR" in os.environ and _names_master(defaults))
    )


def _names_master(defaults: Path) -> bool:
    if not defaults.is_file():
        return False
    return re.search(r"^\s*spark\.master\b", defaults.read_text(), re.MULTILINE) is not None


@contextmanager
def _environ(variables: dict[str, str]) -> Iterator[None]:
    """Replace the environment while the JVM starts: pyspark reads it from there."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _gist(text: str) -> str:
    """Return the essence of a Spark error: the innermost Java error, or the first line."""
    unread = _UNREAD_FILE.search(text)
    if unread is not None:
        path = unquote(urlsplit(unread["url"]).path)
        return unread_text(path, is_gone=unread["why"] == "FILE_NOT_EXIST")
    causes = _JAVA_ERROR.findall(text)
    return causes[-1] if causes else text.strip().partition("\n")[0]
