"""Kafka's own command line tools, by their main classes."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from agent.lab.artifacts import BROKER_VERSION, broker_set, fetch, tools_set
from agent.lab.drivers import RESOURCES, java_on

_TIMEOUT_S = 90.0


def command(main: str, log: Path, cache: Path, version: str = BROKER_VERSION) -> list[str | Path]:
    """Return the command line for a main class of Kafka's tools or of Connect."""
    # kafka-configs is the broker's
    jars = [*fetch(tools_set(version), cache), *fetch(broker_set(version), cache)]
    # fmt: off
    return [
        *java_on(jars, cache), "-Xmx192m",
        f"-Dlog4j2.configurationFile={RESOURCES / 'log4j2.properties'}", f"-Ddriver.log={log}",
        main,
    ]
    # fmt: on


def write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return path


class KafkaTools:
    """Runs tools against one bootstrap address, with the same properties for all."""

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        cache: Path,
        properties: Mapping[str, str] | None = None,
        version: str = BROKER_VERSION,
    ) -> None:
        self._version = version
        self._bootstrap, self._cache, self._log = bootstrap, cache, folder / "tools.log"
        named = {"client.id": "tool"} | dict(properties or {})
        self._config = write_properties(folder / "client.properties", named)

    def run(self, main: str, *arguments: str) -> str:
        """Return the output of a tool (stdout)."""
        return self._run([*self.command(main), *arguments])

    def cluster_id(self) -> str:
        """Return the id as kafka-cluster.sh prints it: its words stand before its options."""
        main = "org.apache.kafka.tools.ClusterTool"
        tool = command(main, self._log, self._cache, self._version)
        printed = self._run([*tool, "cluster-id", "--bootstrap-server", self._bootstrap])
        return printed.rpartition(" ")[2].strip()

    def _run(self, words: list[str | Path]) -> str:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{words[-8:]}: {done.stdout}{done.stderr}"
        return done.stdout

    def command(self, main: str) -> list[str | Path]:
        """Return the command of a tool, with the options that all take."""
        return [
            *command(main, self._log, self._cache, self._version),
            *("--bootstrap-server", self._bootstrap),
            *("--command-config", self._config),
        ]
