"""kafka-python sends numbers to a topic and reads them back, in a process of its own.

``kafka_python.py TOPIC COUNT JSON``: the JSON has the settings of both clients. Read values go to
stdout, a number a line.
"""

import json
import sys

from kafka import KafkaConsumer, KafkaProducer

TIMEOUT_S = 60


def main(topic: str, count: int, settings: str) -> None:
    shared = json.loads(settings)
    producer = KafkaProducer(**shared)
    for number in range(count):
        producer.send(topic, b"%d" % number)
    producer.flush(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        group_id="kafka-python",
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_S * 1_000,
        **shared,
    )
    for _ in range(count):
        sys.stdout.write(f"{next(consumer).value.decode()}\n")
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
