"""How tests start the lab's JVMs: with their classes from archives (AppCDS).

``python -m tests.lab_start`` makes the archives, once for a Java and these sources, in the cache
folder: a minute, 250 MB. They take half the CPU time off a client's start and off a broker's. No
test needs them: where one is missing, or does not fit, classes come from their jars.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.lab.artifacts import BROKER, fetch
from agent.lab.drivers import class_archive, classes
from agent.lab.jvm import find_java
from agent.lab.lab import VERSIONS, fetch_artifacts, open_lab
from agent.processes.errors import ProcessError
from tests.system.inspected import CONSUMER_GROUPS, GROUPS
from tests.system.kafka_tools import KafkaTools, command

_PATIENCE_S = 120.0


def main() -> None:
    """Make the archives, unless the broker's is there: it is the last one."""
    try:
        _make(fetch_artifacts())
    except ProcessError as error:  # the tests say it again, or can do without
        sys.stderr.write(f"no archives of the lab's classes: {error}\n")


def _make(cache: Path) -> None:
    jars = [classes(cache), *fetch(BROKER, cache)]
    wanted = class_archive(find_java(), ":".join(map(str, jars)), cache)
    if not wanted.exists():
        sys.stderr.write(f"making {wanted.parent}/*.jsa (once) ...\n")
        wanted.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=wanted.parent) as scratch:
            lists = _recorded(Path(scratch), cache)
            for classpath, names in sorted(lists.items(), key=lambda item: "/kafka_2" in item[0]):
                _archive(classpath, names, Path(scratch), cache)


def _recorded(folder: Path, cache: Path) -> dict[str, dict[str, None]]:
    """Run each kind of JVM once; return the classes that were loaded, by class path."""
    lists: dict[str, dict[str, None]] = {}
    with _writing_lists(folder / "drivers"), open_lab(folder / "lab", cache) as lab:
        with lab.clients(folder / "clients") as clients:
            lab.admin.do("create-topic in 4", _PATIENCE_S)
            for version in VERSIONS:
                consumer = clients.consumer(version, f"c-{version}", f"c-{version}", ["in"])
                consumer.wait_for("assigned", _PATIENCE_S)
                streams = clients.streams(version, f"s-{version}", f"s-{version}", "in")
                streams.wait_for("state RUNNING", _PATIENCE_S)
            for path in (folder / "drivers").glob("*.lst"):
                lists.setdefault(_classpath(int(path.stem.removeprefix("pid"))), {}).update(
                    _names(path)
                )
        tools = KafkaTools(lab.cluster.bootstrap, folder / "tools-logs", cache)
        with _writing_lists(folder / "tools"):
            tools.run(GROUPS, "--list")
            tools.run(CONSUMER_GROUPS, "--describe", "--all-groups", "--members", "--verbose")
        command_line = [str(part) for part in command(GROUPS, folder, cache)]
        of_tools = lists.setdefault(command_line[command_line.index("-cp") + 1], {})
        for path in (folder / "tools").glob("*.lst"):
            of_tools.update(_names(path))
    return {classpath: names for classpath, names in lists.items() if classpath}


@contextmanager
def _writing_lists(folder: Path) -> Iterator[None]:
    """Have every JVM that starts write down which classes it loads."""
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"-XX:DumpLoadedClassList={folder}/%p.lst")
        yield


def _classpath(pid: int) -> str:
    """Return the class path of a JVM that runs; none of one that has ended, as `java -version`."""
    try:
        parts = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except FileNotFoundError:
        return ""
    return parts[parts.index("-cp") + 1] if "-cp" in parts else ""


def _names(path: Path) -> dict[str, None]:
    """Return the whole lines of a list that is still written."""
    return dict.fromkeys(path.read_text().rpartition("\n")[0].splitlines())


def _archive(classpath: str, names: Iterable[str], scratch: Path, cache: Path) -> None:
    listed, made = scratch / "listed", scratch / "made.jsa"
    listed.write_text("\n".join(names))
    options = ["-Xshare:dump", f"-XX:SharedClassListFile={listed}", f"-XX:SharedArchiveFile={made}"]
    java = find_java()
    dumped = [str(java), "-XX:+UseSerialGC", *options, "-cp", classpath]
    done = subprocess.run(dumped, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ProcessError(f"{java} archives none: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    made.rename(class_archive(java, classpath, cache))


if __name__ == "__main__":
    main()
