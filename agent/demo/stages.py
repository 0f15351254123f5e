"""Stages of the demo: the mock cluster in this process, or a real broker with Java clients."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from agent.errors import ConfigError
from agent.extras import check_extras

Acts = Iterator[str]
"""Each act yields the caption of the next event, then makes it happen."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A running cluster, and the acts of its clients."""

    upstreams: tuple[str, ...]
    """Ways into the cluster; each gets a proxy of the agent in front of it."""
    play: Callable[[Sequence[str]], AbstractContextManager[Acts]]
    """(addresses of those proxies) -> the acts; no client outlives the context."""


@dataclass(frozen=True, slots=True)
class PlayTerms:
    """Conditions of a play."""

    is_enough: Callable[[], bool]
    """Whether to end, asked after each act of the second pass and later."""
    leaves_running: bool = False
    """Whether the clients still run after the last act."""


Setting = Callable[[Path, PlayTerms], AbstractContextManager[Stage]]
"""(folder for all files of the stage, terms of the play) -> the stage."""


@contextmanager
def mock(folder: Path, terms: PlayTerms) -> Iterator[Stage]:
    """Play on the mock cluster with librdkafka consumers."""
    from agent.demo.consumers import Consumers  # noqa: PLC0415 - the extra is optional
    from agent.demo.mock_cluster import MockCluster  # noqa: PLC0415
    from agent.demo.scenes import Play  # noqa: PLC0415

    with MockCluster() as cluster:

        @contextmanager
        def play(proxies: Sequence[str]) -> Iterator[Acts]:
            with Consumers(proxies[0], folder / "logs") as consumers:
                yield Play(cluster, consumers).acts(
                    terms.is_enough, closes=not terms.leaves_running
                )

        yield Stage((cluster.bootstrap,), play)


@contextmanager
def kafka(folder: Path, terms: PlayTerms) -> Iterator[Stage]:
    """Play once on a real broker with Java consumers and Streams applications.

    Raises:
        ProcessError: there is no Java, or an artifact cannot be fetched.
    """
    del terms  # it plays once, and its last act closes nobody
    from agent.lab.clients import Clients  # noqa: PLC0415 - only for this stage
    from agent.lab.lab import fetch_artifacts, open_lab  # noqa: PLC0415
    from agent.lab.scenes import play as acts  # noqa: PLC0415

    with open_lab(folder / "lab", fetch_artifacts()) as lab:

        @contextmanager
        def play(proxies: Sequence[str]) -> Iterator[Acts]:
            near, far = proxies
            with Clients(near, folder / "logs", lab.cache) as clients:
                yield acts(lab, clients, far)

        yield Stage((lab.cluster.bootstrap, lab.proxy.address), play)


STAGES: dict[str, Setting] = {"mock": mock, "kafka": kafka}

_EXTRAS = {"mock": {"kafka": "confluent_kafka", "wire": "kio"}, "kafka": {"wire": "kio"}}
_REPORT_EXTRAS = {"spark": "pyspark"}


def require_stage(name: str, *, with_report: bool) -> None:
    """Check that the packages of a stage are installed, before anything starts.

    Raises:
        ConfigError: some are missing; the text names the command that installs them.

    """
    if name == "kafka" and find_spec("agent.lab") is None:
        raise ConfigError(
            "the demo with a real broker needs the project's lab, which is not installed: "
            "take a checkout of the repository, and run 'make demo-kafka' there"
        )
    check_extras(_EXTRAS[name] | (_REPORT_EXTRAS if with_report else {}), "demo")
