"""Where the demo plays: the mock cluster in this process, or a real broker with Java clients."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path

from agent.lab.errors import LabError

Acts = Iterator[str]
"""Each yields what happens next, then makes it happen."""
Stage = Callable[[Path, Callable[[], bool]], AbstractContextManager[Acts]]
"""(folder for logs, whether it is enough) -> the acts, ready to play."""


@contextmanager
def mock(logs: Path, until: Callable[[], bool]) -> Iterator[Acts]:
    """Play on the mock cluster with librdkafka consumers.

    Raises:
        LabError: confluent-kafka is missing.
    """
    if find_spec("confluent_kafka") is None:
        raise LabError(
            "the demo's mock cluster needs confluent-kafka: "
            "pip install 'kafka-rebalance-agent[kafka]'"
        )
    from agent.demo.consumers import Consumers  # noqa: PLC0415 - the extra is optional
    from agent.demo.mock_cluster import MockCluster  # noqa: PLC0415
    from agent.demo.scenes import Play  # noqa: PLC0415

    with MockCluster() as cluster, Consumers(cluster.bootstrap, logs) as consumers:
        yield Play(cluster, consumers).acts(until)


@contextmanager
def kafka(logs: Path, until: Callable[[], bool]) -> Iterator[Acts]:
    """Play once on a real broker with Java consumers and Streams applications.

    Raises:
        LabError: there is no Java, or something cannot be fetched.
    """
    del until
    from agent.lab.lab import fetch_artifacts, open_lab  # noqa: PLC0415 - only for this stage
    from agent.lab.scenes import play  # noqa: PLC0415

    with open_lab(logs.parent / "lab", fetch_artifacts()) as lab, lab.clients(logs) as clients:
        yield play(lab, clients)


STAGES: dict[str, Stage] = {"mock": mock, "kafka": kafka}
