"""A kafka-python, aiokafka or confluent-kafka consumer that does as told; in a venv of its own.

python_client.py LIBRARY KEY=VALUE...; stdin: ``close``, ``stall SECONDS``, ``subscribe A B``,
``unsubscribe``.
"""

import asyncio
import logging
import queue
import sys
import threading
import time
from importlib import import_module
from typing import Any

_COMMANDS: "queue.SimpleQueue[list[str]]" = queue.SimpleQueue()


def _listen() -> None:
    for line in sys.stdin:
        _COMMANDS.put(line.split())
    _COMMANDS.put(["close"])


def _next() -> list[str]:
    try:
        return _COMMANDS.get_nowait()
    except queue.Empty:
        return []


def _kafka(topic: str, settings: dict[str, Any]) -> None:
    consumer = import_module("kafka").KafkaConsumer(topic, **settings)
    subscribed = True
    while True:
        if subscribed:
            consumer.poll(timeout_ms=200)
        match _next():
            case ["close"]:
                consumer.close()
                return
            case ["stall", seconds]:
                time.sleep(float(seconds))
            case ["subscribe", *topics]:
                consumer.subscribe(topics)
                subscribed = True
            case ["unsubscribe"]:
                consumer.unsubscribe()
                subscribed = False
            case _:
                time.sleep(0.01)


async def _aio(topic: str, settings: dict[str, Any]) -> None:
    consumer = import_module("aiokafka").AIOKafkaConsumer(topic, **settings)
    await consumer.start()
    while True:
        await consumer.getmany(timeout_ms=200)
        match _next():
            case ["close"]:
                await consumer.stop()
                return
            case ["stall", seconds]:
                time.sleep(float(seconds))  # noqa: ASYNC251 - the loop is to be blocked
            case ["subscribe", *topics]:
                consumer.subscribe(topics)


def _confluent(topic: str, settings: dict[str, Any]) -> None:
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    logger = logging.getLogger("librdkafka")
    if "debug" in dotted:
        logger.setLevel(logging.DEBUG)
    consumer = import_module("confluent_kafka").Consumer(dotted, logger=logger)
    consumer.subscribe([topic])
    while True:
        consumer.poll(0.2)
        match _next():
            case ["close"]:
                consumer.close()
                return
            case ["stall", seconds]:
                time.sleep(float(seconds))
            case ["subscribe", *topics]:
                consumer.subscribe(topics)


def main() -> None:
    library, *pairs = sys.argv[1:]
    named: dict[str, Any] = dict(pair.split("=", 1) for pair in pairs)
    topic, log = named.pop("topic"), named.pop("log")
    numbers = {key: int(value) for key, value in named.items() if value.isdigit()}
    times = {"heartbeat_interval_ms": 1000, "session_timeout_ms": 6000, "metadata_max_age_ms": 3000}
    if named.get("group_protocol") == "consumer":  # the broker has these times
        times = {"topic_metadata_refresh_interval_ms": 3000}
    settings = times | named | numbers
    layout = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(filename=log, level=logging.INFO, format=layout)
    threading.Thread(target=_listen, daemon=True).start()
    match library:
        case "kafka-python":
            _kafka(topic, settings)
        case "confluent-kafka":
            _confluent(topic, settings)
        case _:
            asyncio.run(_aio(topic, settings))
    sys.stdout.write("done close\n")


if __name__ == "__main__":
    main()
