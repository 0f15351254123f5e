"""Names of topics that new protocols give by id, from the Metadata that clients ask for.

Theory of operation. A client asks for the topics of its subscription before it acknowledges an
assignment, so their names are known as a rule. A topic keeps the text of its first use: a
partition that changed its name would look like one that was lost, and another one.

Source: KIP-848 (assignments have topic ids), KIP-516 (Metadata has ids since version 10).
"""

from collections import OrderedDict
from collections.abc import Iterable

TOPICS_MAX = 4_096
"""Names that are remembered: 1 MB of the longest ones. The one that is learned first goes first."""


class TopicNames:
    """Names of topics by id, and the text that was used for each."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, str] = OrderedDict()
        self._used: OrderedDict[str, str] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of names that are kept, both kinds together."""
        return len(self._known) + len(self._used)

    def learn(self, topics: Iterable[tuple[str, str]]) -> None:
        """Take ids and names of a response."""
        for topic_id, name in topics:
            _keep(self._known, topic_id, name)

    def name_partitions(self, partitions: Iterable[str]) -> tuple[str, ...]:
        """Return partitions (``ID-NUMBER``) by name, in order; by id if the name is not known."""
        return tuple(sorted(map(self._name_partition, partitions)))

    def _name_partition(self, partition: str) -> str:
        topic_id, _, number = partition.rpartition("-")
        used = self._used.get(topic_id)
        if used is None:
            used = self._known.get(topic_id, topic_id)
            _keep(self._used, topic_id, used)
        return f"{used}-{number}"


def _keep(names: OrderedDict[str, str], topic_id: str, name: str) -> None:
    names[topic_id] = name
    if len(names) > TOPICS_MAX:
        names.popitem(last=False)
