"""The topic of a checkpoint, by its id: a topic that is deleted and recreated has another id.

Offsets do not show that: the new topic may have more records than were read of the old one, and
Spark would continue in its middle. Brokers before 2.8 give no ids (KIP-516).
"""

from collections.abc import Callable
from pathlib import Path


class KnownTopic:
    """The topic's id, in a file beside Spark's checkpoint."""

    def __init__(self, checkpoint: Path, find: Callable[[], str | None]) -> None:
        """``find`` asks a broker for the id of today's topic; None: it does not know."""
        self._path, self._find = checkpoint / "topic_id", find

    def is_another_now(self) -> bool:
        """Return whether today's topic is another one. Keep the first id that is found."""
        found = self._find()
        if found is None:
            return False
        if self._path.exists():
            return self._path.read_text() != found
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial_file = self._path.with_suffix(".part")
        partial_file.write_text(found)
        partial_file.replace(self._path)
        return False
