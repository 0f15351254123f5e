"""A group of a framework's processes, with their output in files as their user keeps it."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Lock, Thread
from types import TracebackType
from typing import IO, Self

from confluent_kafka import Producer

from agent.inspection.client import Access, Extras, describe
from agent.inspection.connection.security import Security
from agent.inspection.model import Failure, GroupState
from tests.system.frameworks.program import Program
from tests.system.observer import DEADLINE_S

_STEP_S = 0.1


class Fleet:
    """Starts, ends and blocks members. The exit kills those that still run."""

    def __init__(
        self,
        program: Program,
        command: Sequence[str],
        logs: Path,
        bootstrap: str,
        group: str,
        topic: str,
    ) -> None:
        self._command, self._group, self.topic = command, group, topic
        self._is_prefixed = program.is_prefixed
        self._output = logs.with_name("stdout") if program.writes_files else logs
        self._environment = os.environ | dict(program.environment)
        self._environment |= {"BOOTSTRAP": bootstrap, "GROUP": group, "TOPIC": topic}
        self._bootstrap = bootstrap
        host, _, port = bootstrap.rpartition(":")
        self._access = Access(
            bootstrap=((host, int(port)),), security=Security, timeout_s=DEADLINE_S
        )
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._readers: list[Thread] = []
        self._lock = Lock()
        self.starts = 0
        """How many processes were started."""
        self._output.mkdir(parents=True, exist_ok=True)

    def start(self, name: str) -> None:
        """Start a member; one that was there before writes on into its file."""
        process = subprocess.Popen(
            self._command,
            env=self._environment | {"MEMBER": name, "HOSTNAME": name},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        self.starts += 1
        assert process.stdout is not None
        self._running[name] = process
        reader = Thread(target=self._copy, args=(name, process.stdout), daemon=True)
        self._readers.append(reader)
        reader.start()

    def stop(self, name: str) -> None:
        """Close a member as a deployment does, by SIGTERM."""
        self._end(name, signal.SIGTERM)

    def kill(self, name: str) -> None:
        """Kill a member: it sends nothing more."""
        self._end(name, signal.SIGKILL)

    def pause(self, name: str) -> None:
        """Freeze a member."""
        self._running[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let a frozen member go on."""
        self._running[name].send_signal(signal.SIGCONT)

    def block(self, name: str, seconds: float) -> None:
        """Block one member for some seconds: send a record for it to each partition."""
        until_ms = int((time.time() + seconds) * 1000)
        producer = Producer({"bootstrap.servers": self._bootstrap})
        for partition in producer.list_topics(self.topic).topics[self.topic].partitions:
            producer.produce(self.topic, f"{name} {until_ms}", partition=partition)
        producer.flush()

    def wait_members(self, wanted: int) -> None:
        """Wait until the broker has so many members in a group that does not rebalance."""
        state = GroupState.STABLE if wanted else GroupState.EMPTY
        end_s = time.monotonic() + DEADLINE_S
        while (seen := self._seen()) != (state, wanted):
            assert time.monotonic() < end_s, f"{wanted} members, not {seen}; {self._last_lines()}"
            time.sleep(_STEP_S)

    def _seen(self) -> tuple[GroupState, int] | Failure:
        """Return the group's state and number of members at the broker, also for Connect."""
        asked = describe(self._access, [self._group], None, Extras())
        found = asyncio.run(asked)[0]
        return found if isinstance(found, Failure) else (found.state, len(found.members))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in list(self._running):
            self.kill(name)
        for reader in self._readers:
            reader.join()

    def _end(self, name: str, number: signal.Signals) -> None:
        process = self._running.pop(name)
        if process.poll() is None:
            process.send_signal(number)
        try:
            process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise

    def _copy(self, name: str, output: IO[str]) -> None:
        """Write a member's output as a shell's redirect does, or as compose prints it."""
        path = self._output / ("compose.log" if self._is_prefixed else f"{name}.log")
        prefix = f"{name}  | " if self._is_prefixed else ""
        with output:
            for line in output:
                with self._lock, path.open("a") as log:
                    log.write(prefix + line)

    def _last_lines(self) -> str:
        files = sorted(self._output.glob("*.log"))
        return "\n".join(line for each in files for line in each.read_text().splitlines()[-5:])
