"""The demo's agent: ``rebalance-agent run`` as a user would start it."""

import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from agent.processes.child import Child
from agent.processes.errors import ProcessError
from agent.processes.ports import HOST, free_port
from kafka_rebalance_agent.child import CHILD

_READY_TIMEOUT_S = 30.0
_REQUEST_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """A running agent."""

    url: str
    """Without a path."""
    proxies: tuple[str, ...]
    """Addresses of its proxies."""
    spool: Path

    def get(self, path: str) -> str:
        """Return a page.

        Raises:
            OSError: the agent does not respond, or not with 200.
        """
        with urllib.request.urlopen(self.url + path, timeout=_REQUEST_TIMEOUT_S) as response:  # noqa: S310
            return str(response.read().decode())


@contextmanager
def observe(folder: Path, upstreams: Sequence[str]) -> Iterator[Observer]:
    """Run an agent with a proxy before each upstream; the exit waits until it has drained.

    Raises:
        ProcessError: the agent ends or does not get ready.
    """
    observer = Observer(
        url=f"http://{HOST}:{free_port()}",
        proxies=tuple(f"{HOST}:{free_port()}" for _ in upstreams),
        spool=folder / "spool",
    )
    file = folder / "agent.yaml"
    file.write_text(yaml.safe_dump(_configuration(folder, upstreams, observer), sort_keys=False))
    command: list[str | Path] = [*CHILD, "agent", "run", "-c", file]
    with Child("the agent", command, folder / "agent.log") as agent:
        agent.wait_until(lambda: _is_ready(observer), "it ready", _READY_TIMEOUT_S)
        yield observer
        code = agent.stop()
    if code:
        raise ProcessError(f"the agent ended with exit code {code}; {agent.last_words()}")


def _is_ready(observer: Observer) -> bool:
    try:
        observer.get("/-/ready")
    except OSError:
        return False
    return True


def _configuration(folder: Path, upstreams: Sequence[str], observer: Observer) -> dict[str, object]:
    sources: list[dict[str, object]] = [
        {"type": "proxy", "listen": listen, "upstream": upstream.split(",")}
        for listen, upstream in zip(observer.proxies, upstreams, strict=True)
    ]
    # a consumer that is stuck leaves by itself: the wire shows a leave, its log the reason
    sources.append({"type": "logs", "paths": [str(folder / "logs" / "*.log")]})
    return {
        "role": "standalone",
        "cluster": {"name": "demo"},
        "state_dir": str(folder / "state"),
        "apps": {"shop": ["orders", "payments", "returns"]},
        "sources": sources,
        "samples": {"interval": "5s", "spool": {"dir": str(observer.spool), "roll": "10s"}},
        "web": {"listen": [observer.url.removeprefix("http://")]},
    }
