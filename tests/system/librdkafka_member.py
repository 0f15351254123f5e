"""One librdkafka consumer in a process of its own: it obeys commands and reports its events.

``librdkafka_member.py TOPIC KEY=VALUE ...``. Commands come from stdin, one a line: ``stall S``
(does not poll for S seconds), ``block S`` (its next revoke callback takes S seconds), ``close``.
Events go to stdout, one a line: event, time (Unix seconds), partitions. With ``start.at=S`` it
starts at S (Unix seconds), like a process with a slow start. With ``work.s=S`` it works S seconds
between two polls while it has partitions; without partitions there are no records to work on.
"""

import os
import sys
import time
from queue import Empty, SimpleQueue
from threading import Thread

from confluent_kafka import Consumer, KafkaError, TopicPartition

_POLL_S = 0.1


class Member:
    """Polls until it is closed."""

    def __init__(self, topic: str, settings: list[str]) -> None:
        self._commands: SimpleQueue[str] = SimpleQueue()
        self._block_s = 0.0
        given = dict(text.split("=", 1) for text in settings)
        time.sleep(max(0.0, float(given.pop("start.at", "0")) - time.time()))
        self._work_s = float(given.pop("work.s", "0"))
        self._read: set[int] = set()
        self._consumer = Consumer(given)
        self._consumer.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def run(self) -> None:
        Thread(target=self._listen, daemon=True).start()
        while True:
            message = self._consumer.poll(_POLL_S)
            has_failed = message is not None  # there are no records
            error = message.error() if message is not None else None
            if error is not None and error.code() == KafkaError._FATAL:
                report("fenced")
                return
            time.sleep(self._work_s if self._read and not has_failed else 0.0)
            try:
                command, _, argument = self._commands.get_nowait().partition(" ")
            except Empty:
                continue
            if command == "close":
                self._consumer.close()
                report("closed")
                return
            if command == "block":
                self._block_s = float(argument)
            if command == "stall":
                report("stalled")
                time.sleep(float(argument))
                report("polls")

    def _listen(self) -> None:
        for line in sys.stdin:
            self._commands.put(line.strip())
        os._exit(0)  # its parent is gone

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._read.update(each.partition for each in partitions)
        report("assigned", partitions)

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._read.difference_update(each.partition for each in partitions)
        report("revoked", partitions)
        if self._block_s:
            report("blocks")
            time.sleep(self._block_s)
            self._block_s = 0.0
            report("unblocks")

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._read.difference_update(each.partition for each in partitions)
        report("lost", partitions)


def report(event: str, partitions: list[TopicPartition] | None = None) -> None:
    names = ",".join(str(each.partition) for each in partitions or ())
    sys.stdout.write(f"{event} {time.time():.6f} {names}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    Member(sys.argv[1], sys.argv[2:]).run()
