"""The whole lab: one cluster, an operator and a proxy for faults, started and ended together."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.lab.artifacts import BROKER, COMPILER, default_cache, fetch_all
from agent.lab.artifacts import clients as client_artifacts
from agent.lab.broker import Cluster
from agent.lab.clients import Clients
from agent.lab.proxy import FaultProxy
from agent.processes.driver import Driver

VERSIONS = ("2.8.2", "3.4.1", "3.9.1", "4.3.0")
"""One client of each kind of log: the texts changed in 3.x, and their logger in 3.9."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A running lab. Clients that bootstrap from the proxy's address stay with the proxy."""

    cluster: Cluster
    proxy: FaultProxy
    admin: Driver
    cache: Path

    def clients(self, folder: Path) -> Clients:
        """Return a starter of clients that log into the folder."""
        return Clients(self.cluster.bootstrap, folder, self.cache)


def fetch_artifacts(cache: Path | None = None) -> Path:
    """Fetch the lab's artifacts into the cache, and return it.

    Raises:
        ProcessError: an artifact is missing and cannot be fetched.

    """
    cache = cache or default_cache()
    fetch_all([BROKER, COMPILER, *map(client_artifacts, VERSIONS)], cache)
    return cache


@contextmanager
def open_lab(folder: Path, cache: Path) -> Iterator[Lab]:
    """Run a one-broker lab in the folder; the exit ends every process."""
    with FaultProxy() as proxy, Cluster(folder, cache, proxy_port=proxy.port) as cluster:
        proxy.upstream = cluster.brokers[0].node.proxied_port
        with Clients(cluster.bootstrap, folder / "admin", cache) as operators:
            yield Lab(cluster=cluster, proxy=proxy, admin=operators.admin(), cache=cache)
