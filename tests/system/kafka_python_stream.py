"""kafka-python as a filter: writes the lines of its stdin to a topic, or a topic's to its stdout.

``kafka_python_stream.py write|read TOPIC JSON``: the JSON has the client's settings. A line is the
key and the value of a record. The writer ends with its stdin, the reader with SIGTERM.
"""

import json
import signal
import sys
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaConnectionError

_FLUSH_S = 60


def write(topic: str, settings: dict[str, Any]) -> None:
    producer = KafkaProducer(acks="all", **settings)
    for line in sys.stdin:
        record = line.strip().encode()
        producer.send(topic, key=record, value=record)
    producer.flush(_FLUSH_S)
    producer.close()


def read(topic: str, settings: dict[str, Any]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", **settings)
    while True:
        try:
            for record in consumer:
                sys.stdout.write(f"{record.value.decode()}\n")
                sys.stdout.flush()
        except KafkaConnectionError as error:  # the application's to repeat: a broker has ended
            sys.stderr.write(f"{error}\n")


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](sys.argv[2], json.loads(sys.argv[3]))
