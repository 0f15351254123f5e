"""kafka-python as a producer of a header whose key is no UTF-8.

``strange_header.py BROKERS TOPIC VALUE`` writes one message.
"""

import sys

from kafka import KafkaProducer

_WITHIN_S = 60


class _Bytes(str):
    """A key of other bytes: the producer encodes what it is given."""

    __slots__ = ()

    def encode(self, *_: str) -> bytes:
        return b"\xff\xfe"


def main(brokers: str, topic: str, value: str) -> None:
    producer = KafkaProducer(bootstrap_servers=brokers)
    producer.send(topic, value.encode(), headers=[(_Bytes(), b"")]).get(_WITHIN_S)
    producer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
