"""Lists of partitions, as clients print them.

Each form is read by the shape of its members, whatever stands around them::

    [orders-0, orders-1]                                    Java; a layout may append its class
    {0_1, 0_3}                                              tasks of Streams; the wire has 0-1
    frozenset({TopicPartition(topic='orders', partition=0)})  Python; Python 2 writes u'orders'
    orders[0 1], payments[3]                                franz-go
    {"orders":[0,1],"payments":[3]}                         kafkajs
    orders(3ieaCWsxThyNF3lmVpnECA)[0]                       librdkafka, KIP-848
    {topic:orders partition:0}:-2 {topic:orders partition:1}:7   kafka-go, with offsets
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

_NUMBERS = re.compile("[0-9]{1,10}")
_OF_JAVA = re.compile(r"([\w.-]{1,249}-[0-9]{1,10})(?![\w.-])(.?)", re.ASCII)
"""The second group is the begin of what stands behind."""
_OF_PYTHON = re.compile(r"topic=u?'([\w.-]{1,249})', partition=([0-9]{1,10})\)", re.ASCII)
_OF_KAFKA_GO = re.compile(r"\{topic:([\w.-]{1,249}) partition:([0-9]{1,10})\}", re.ASCII)
_OF_TOPICS = re.compile(
    r'(?<![\w.-])([\w.-]{1,249})(?:\([\w+/=-]{1,64}\))?"?:? ?\[([0-9 ,]+)\]', re.ASCII
)


@lru_cache(maxsize=8)
def read_partitions(text: str) -> frozenset[str]:
    """Return the partitions of a list, as ``orders-0``."""
    named = _OF_PYTHON.findall(text) or _OF_KAFKA_GO.findall(text)
    if named:
        return frozenset(f"{topic}-{number}" for topic, number in named)
    by_topic = _OF_TOPICS.findall(text)
    if by_topic:
        return frozenset(
            f"{topic}-{number}"
            for topic, numbers in by_topic
            for number in _NUMBERS.findall(numbers)
        )
    if text.startswith("{"):
        text = text.strip("{}").replace("_", "-")
    return frozenset(_read_names(text.lstrip("[ ").split(", ")))


def _read_names(parts: Iterable[str]) -> Iterator[str]:
    """Yield the partitions up to the end of a list; a layout may append text to it."""
    for part in parts:
        found = _OF_JAVA.match(part)
        if found is not None:
            yield found[1]
        if found is None or found[2]:
            return
