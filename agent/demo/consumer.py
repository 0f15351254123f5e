"""One librdkafka consumer as a process: ``agent.demo.consumer LOG KEY=VALUE...``.

Commands come in on stdin, one a line: ``close``, ``unsubscribe``, ``subscribe A B``, ``stall MS``
(stops polling); ``done COMMAND`` follows each. It reports ``assigned``, ``revoked`` and ``lost``.
The end of its stdin ends it at once, like a crash: no leave. librdkafka's log goes to LOG.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread

from confluent_kafka import Consumer, TopicPartition

TOPICS = "driver.topics"
_POLL_S = 0.1


def main() -> None:
    """Run until the command ``close``."""
    log, *pairs = sys.argv[1:]
    settings = dict(pair.split("=", 1) for pair in pairs)
    with open(log, "ab", buffering=0) as file:  # noqa: PTH123 - for its descriptor
        os.dup2(file.fileno(), sys.stderr.fileno())
    topics = settings.pop(TOPICS).split()
    consumer = Consumer(settings)
    _subscribe(consumer, topics)
    commands: SimpleQueue[str] = SimpleQueue()
    Thread(target=_read, args=(commands,), daemon=True).start()
    while _serve(consumer, commands):
        consumer.poll(_POLL_S)


def _read(commands: "SimpleQueue[str]") -> None:
    for line in sys.stdin:
        commands.put(line.strip())
    os._exit(0)


def _serve(consumer: Consumer, commands: "SimpleQueue[str]") -> bool:
    """Execute the next command, if there is one; return whether to continue."""
    with suppress(Empty):
        command, *words = commands.get_nowait().split()
        match command:
            case "close":
                consumer.close()
            case "unsubscribe":
                consumer.unsubscribe()
            case "subscribe":
                _subscribe(consumer, words)
            case "stall":
                time.sleep(int(words[0]) / 1000)
            case _:
                _report(f"error unknown command {command!r}")
        _report(f"done {command}")
        return command != "close"
    return True


def _subscribe(consumer: Consumer, topics: list[str]) -> None:
    consumer.subscribe(
        topics,
        on_assign=_reporter("assigned"),
        on_revoke=_reporter("revoked"),
        on_lost=_reporter("lost"),
    )


def _reporter(event: str) -> Callable[[Consumer, list[TopicPartition]], None]:
    return partial(_report_partitions, event)


def _report_partitions(event: str, _: Consumer, partitions: list[TopicPartition]) -> None:
    _report(" ".join([event, *(f"{one.topic}-{one.partition}" for one in partitions)]))


def _report(event: str) -> None:
    print(event, flush=True)  # noqa: T201 - stdout is the protocol


if __name__ == "__main__":
    main()
