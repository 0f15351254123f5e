"""Kafka's own command line tools, by their main classes."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from agent.lab.artifacts import BROKER, TOOLS, fetch
from agent.lab.drivers import RESOURCES
from agent.lab.jvm import LIGHT_FLAGS, find_java

_TIMEOUT_S = 90.0


class KafkaTools:
    """Runs tools against one bootstrap address, with the same properties for all."""

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        cache: Path,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._bootstrap, self._folder = bootstrap, folder
        self._jars = [*fetch(TOOLS, cache), *fetch(BROKER, cache)]  # kafka-configs is the broker's
        self._config = folder / "client.properties"
        lines = {"client.id": "tool"} | dict(properties or {})
        self._config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def run(self, main: str, *arguments: str) -> str:
        """Return what a tool prints to stdout."""
        # fmt: off
        command: list[str | Path] = [
            find_java(), *LIGHT_FLAGS, "-Xmx192m",
            f"-Dlog4j2.configurationFile={RESOURCES / 'log4j2.properties'}",
            f"-Ddriver.log={self._folder / 'tools.log'}",
            "-cp", ":".join(map(str, self._jars)), main,
            "--bootstrap-server", self._bootstrap, "--command-config", self._config, *arguments,
        ]
        # fmt: on
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        assert done.returncode == 0, f"{main} {arguments}: {done.stdout}{done.stderr}"
        return done.stdout
