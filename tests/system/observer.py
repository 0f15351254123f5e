"""The agent as a subprocess, seen only as its users see it: its `/metrics` and its spool."""

import json
import os
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from agent.processes.child import Child
from agent.processes.ports import free_port

DEADLINE_S = 120.0
CONSUMER, STREAMS = "consumer", "streams"
_T = TypeVar("_T")

_CONFIG = """\
role: {role}
sources:
  - {source}
samples: {{spool: {{dir: "{spool}", roll: 1s}}}}
web: {{listen: ["127.0.0.1:{port}"]}}
"""


class Observer:
    """Runs the agent over a folder of client logs, or over another source."""

    def __init__(
        self,
        logs: Path,
        folder: Path,
        source: str | None = None,
        role: str = "sidecar",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        source = source or f'{{type: logs, paths: ["{logs}/*.log"]}}'
        logs.mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True)
        self._spool = folder / "spool"
        port = free_port()
        self._url = f"http://127.0.0.1:{port}"
        config = folder / "agent.yaml"
        text = _CONFIG.format(source=source, spool=self._spool, port=port, role=role)
        config.write_text(text)
        self._log = folder / "agent.log"
        self._command: list[str | Path] = [sys.executable, "-P", "-m", "agent", "run", "-c", config]
        self._environment = {
            **os.environ,
            "XDG_STATE_HOME": str(folder),
            "TMPDIR": str(folder),
            **(environment or {}),
        }
        self.start()

    def start(self) -> None:
        """Start the agent; after `stop`, it goes on from its checkpoint."""
        self._agent = Child("agent", self._command, self._log, environment=self._environment)

    def wait_ready(self) -> None:
        self._agent.wait_until(self._ready, "a ready agent", DEADLINE_S)

    @property
    def url(self) -> str:
        """The address of its pages."""
        return self._url

    def codes_of_group(self, group: str) -> dict[str, list[int]]:
        """Return the codes that the spool has of a group's consumers, by client id."""
        found: dict[str, list[int]] = {}
        for row in self.transitions_of_group(group):
            found.setdefault(row["client_id"], []).append(row["to"])
        return found

    def transitions_of_group(self, group: str) -> list[dict[str, Any]]:
        """Return the transitions of a group's consumers that the spool has, in order."""
        wanted = ("transition", CONSUMER, group)
        return [row for row in self._rows() if (row["kind"], row["scope"], row["group"]) == wanted]

    def failed_joins(self, group: str) -> set[tuple[str, str | None]]:
        """Return the client ids of refused joins, with the reasons."""
        return {
            (row["client_id"], row.get("reason"))
            for row in self._rows()
            if (row["kind"], row["group"], row.get("outcome")) == ("signal", group, "failed")
        }

    def clusters(self, *names: str) -> set[str]:
        """Return the labels of the cluster that the series of these metrics have."""
        with urllib.request.urlopen(f"{self._url}/metrics", timeout=DEADLINE_S) as answer:
            lines = answer.read().decode().splitlines(keepends=True)
        page = "".join(line for line in lines if line.startswith(names))
        return {
            sample.labels["kafka_cluster"]
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        }

    def changes(self, group: str) -> list[tuple[str, str | None, str]]:
        """Return the changed attributes of a group that the spool has: field, before, after."""
        return [
            (row["field"], row["before"], row["after"])
            for row in self._rows()
            if (row["kind"], row.get("subject"), row["group"]) == ("change", "group", group)
        ]

    def incidents(self, group: str) -> list[dict[str, Any]]:
        """Return the incidents of a group, as the API has them."""
        url = f"{self._url}/api/v1/incidents?group={group}"
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return found

    def stop(self) -> None:
        self._agent.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def codes(self, client_id: str, wanted: list[int], scope: str = CONSUMER) -> list[int]:
        """Return the codes of the spool's transitions, in order, once they are as wanted.

        At the deadline they are returned as they are, for the test to show.
        """
        return self.poll(lambda: self._codes(client_id, scope), lambda seen: seen == wanted)

    def settled(self, client_id: str, least: int, scope: str = CONSUMER) -> list[int]:
        """Return the codes of the spool's transitions, once they are so many and end with 0."""
        return self.poll(
            lambda: self._codes(client_id, scope),
            lambda seen: len(seen) >= least and seen[-1] == 0,
        )

    def closed(self, client_id: str) -> list[int]:
        """Return the codes of the spool's transitions, once the consumer has closed."""
        return self.poll(lambda: self._codes(client_id, CONSUMER), lambda seen: seen[-2:] == [6, 0])

    def all_codes(self, wanted: set[int]) -> set[int]:
        """Return the codes of all consumers and instances, when they are as wanted."""
        return self.poll(
            lambda: {row["to"] for row in self._rows() if row["kind"] == "transition"},
            lambda seen: seen == wanted,
        )

    def reasons(self, client_id: str, code: int) -> list[str | None]:
        """Return the reasons of a consumer's transitions to the code."""
        rows = self._transitions(client_id, CONSUMER)
        return [row.get("reason") for row in rows if row["to"] == code]

    def kinds(self, group: str) -> set[tuple[str, str | None]]:
        """Return the group and protocol types that were recorded of a group."""
        rows = [row for row in self._rows() if row["group"] == group]
        return {(row["group_type"], row["protocol_type"]) for row in rows}

    def gauge(self, name: str, wanted: float | None, **labels: str) -> float | None:
        """Return the largest series with these labels, once it is as wanted; None without one."""
        return self.poll(lambda: self._value(name, labels, max), lambda seen: seen == wanted)

    def counter(self, name: str, **labels: str) -> float | None:
        """Return the sum of the series that have these labels; None if there is none."""
        return self._value(name, labels, sum)

    def logged(self, event: str) -> str:
        """Return the lines of an event in the agent's own log, once there is one."""
        return "\n".join(self.poll(lambda: self._lines(f"event={event}"), bool))

    def _lines(self, text: str) -> list[str]:
        return [line for line in self._log.read_text().splitlines() if text in line]

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=5.0) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _value(
        self, name: str, labels: dict[str, str], join: Callable[[list[float]], float]
    ) -> float | None:
        with urllib.request.urlopen(f"{self._url}/metrics", timeout=DEADLINE_S) as answer:
            page = answer.read().decode()
        # a page is long to parse, and this is asked for again and again
        lines = "".join(line for line in page.splitlines(keepends=True) if line.startswith(name))
        values = [
            sample.value
            for family in text_string_to_metric_families(lines)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return join(values) if values else None

    def _codes(self, client_id: str, scope: str) -> list[int]:
        return [row["to"] for row in self._transitions(client_id, scope)]

    def _transitions(self, client_id: str, scope: str) -> list[dict[str, Any]]:
        return [
            row
            for row in self._rows()
            if row["kind"] == "transition"
            and (row["scope"], row["client_id"]) == (scope, client_id)
        ]

    def _rows(self) -> list[dict[str, Any]]:
        texts = [path.read_text() for path in self._spool.glob("*.jsonl")]
        rows = [json.loads(line) for text in texts for line in text.splitlines()]
        return sorted(rows, key=lambda row: row["seq"])

    def poll(self, look: Callable[[], _T], enough: Callable[[_T], bool]) -> _T:
        """Return the first result of ``look`` that is enough, or the last one at the deadline."""
        end_s = time.monotonic() + DEADLINE_S
        while not enough(seen := look()) and time.monotonic() < end_s:
            time.sleep(0.1)
        return seen
