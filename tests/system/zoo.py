"""A cluster with a group of every kind at once."""

from contextlib import ExitStack
from pathlib import Path

from agent.lab.artifacts import BROKER_VERSION
from agent.lab.broker import Cluster
from agent.lab.clients import Clients
from agent.processes.child import Child
from tests.system.connect_worker import connect_worker
from tests.system.inspected import CONSUMER_GROUPS, TOOLS, Group, described, partitions, until
from tests.system.kafka_tools import KafkaTools, command


class Zoo:
    """A cluster with a group of every kind at once."""

    ALL = ("classic", "connect", "consumer", "offsets", "share", "streams")

    def __init__(
        self,
        folder: Path,
        cache: Path,
        stack: ExitStack,
        *,
        brokers: int = 3,
        version: str = BROKER_VERSION,
    ) -> None:
        self.folder = folder
        cluster = Cluster(folder / "lab", cache, brokers=brokers, version=version)
        self.cluster = stack.enter_context(cluster)
        self.bootstrap, self.cache = self.cluster.bootstrap, cache
        clients = stack.enter_context(Clients(self.bootstrap, folder / "clients", cache))
        self.tools = KafkaTools(self.bootstrap, folder / "tools", cache, version=version)
        self.admin = admin = clients.admin()
        for topic in ("orders", "views"):
            admin.do(f"create-topic {topic} 4", 60.0)
        # the first to ask for a coordinator waits until there is one: 5 s by itself
        patient = ("--timeout", "60000")
        reset = (*patient, "--reset-offsets", "--to-earliest", "--execute", "--topic", "orders")
        self.tools.run(CONSUMER_GROUPS, *reset, "--group", "offsets")
        for number in (1, 2):
            named = {"group.instance.id": "static-1"} if number == 1 else {}
            clients.consumer("3.9.1", f"classic-{number}", "classic", ["orders"], named)
            named = {"group.protocol": "consumer", "client.rack": f"rack-{number}"}
            clients.consumer("4.3.0", f"consumer-{number}", "consumer", ["orders", "views"], named)
        clients.streams("4.3.0", "streams-1", "streams", "views", {"group.protocol": "streams"})
        stack.enter_context(
            connect_worker("connect-1", "connect", self.bootstrap, folder / "clients", cache)
        )
        stack.enter_context(self._share_consumer(folder, cache))

    def settle(self) -> dict[str, Group]:
        """Wait until every group stands still with its members and partitions; describe them.

        A share group is stable before its partitions are ready, and its epoch rises when they are.
        """
        stable = {
            "classic": ("Stable", 2, 4),
            "connect": ("Stable", 1, 0),
            "consumer": ("Stable", 2, 8),
            "offsets": ("Empty", 0, 0),
            "share": ("Stable", 1, 4),
            "streams": ("Stable", 1, 4),
        }

        def look() -> dict[str, tuple[str, int, int]]:
            found = described(self.bootstrap, *self.ALL)
            return {n: (g["state"], len(g["members"]), partitions(g)) for n, g in found.items()}

        assert until(look, stable) == stable
        return described(self.bootstrap, *self.ALL)

    def _share_consumer(self, folder: Path, cache: Path) -> Child:
        main = f"{TOOLS}.consumer.ConsoleShareConsumer"
        # fmt: off
        return Child(
            "share consumer",
            [
                *command(main, folder / "share.log", cache),
                "--bootstrap-server", self.bootstrap, "--topic", "orders", "--group", "share",
            ],
            folder / "share.out",
        )
        # fmt: on
