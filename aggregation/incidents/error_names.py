"""Names of join errors, from the words that brokers and clients print of them. Pure.

Theory of operation. The wire shows an error's number, so its name in Kafka's protocol is known.
Logs print that name, the number, an exception, or the sentence of the error, as the client and its
version do. One error has one name, whichever source shows it: counts by error, and recommendations,
go by it.

Source: https://github.com/apache/kafka/blob/4.3.0/clients/src/main/java/org/apache/kafka/common/protocol/Errors.java
"""

import re
from itertools import chain

_ANSWER = re.compile(r"\banswered ([A-Z]\w+)$")
"""The text that the wire decoder gives a response with an error."""
_PROTOCOL = re.compile(r"\b([A-Z]+(?:_[A-Z]+)+)\b")
_EXCEPTION = re.compile(r"\((?!Kafka|Runtime|IllegalState|Streams)(\w+)Exception\)")
"""The class of a Java exception, except classes that any error may have."""
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NUMBER = re.compile(r"\[(?:Error )?(\d{1,3})\]")
"""kafka-python and aiokafka print ``[Error 23]``, kafka-go ``[23]``."""

_BY_NUMBER = {
    "23": "INCONSISTENT_GROUP_PROTOCOL",
    "24": "INVALID_GROUP_ID",
    "26": "INVALID_SESSION_TIMEOUT",
    "29": "TOPIC_AUTHORIZATION_FAILED",
    "30": "GROUP_AUTHORIZATION_FAILED",
    "81": "GROUP_MAX_SIZE_REACHED",
    "82": "FENCED_INSTANCE_ID",
    "110": "FENCED_MEMBER_EPOCH",
    "111": "UNRELEASED_INSTANCE_ID",
    "112": "UNSUPPORTED_ASSIGNOR",
}
_NAMES = {
    *_BY_NUMBER.values(),
    "INCORRECTLY_PARTITIONED_TOPICS",
    "MISSING_SOURCE_TOPICS",
    "SHUTDOWN_APPLICATION",
    "INVALID_REGULAR_EXPRESSION",
    "INVALID_REQUEST",
    "STALE_MEMBER_EPOCH",
    "STREAMS_INVALID_TOPOLOGY",
    "STREAMS_INVALID_TOPOLOGY_EPOCH",
    "STREAMS_TOPOLOGY_FENCED",
    "UNSUPPORTED_VERSION",
}
"""Names that may stand in a sentence: groups and clients have names in capitals, too."""
_BY_WORDS = {
    name: re.compile(words, re.IGNORECASE)
    for name, words in {
        # the messages of Errors.java, the texts of rd_kafka_err_descs, and those of single clients
        "GROUP_AUTHORIZATION_FAILED": r"not authorized to access group|group authorization \w+",
        "TOPIC_AUTHORIZATION_FAILED": (
            r"not authorized to access topics|topic authorization failed"
            r"|not authorized to (?:read from|commit to) (?:partition|topic)"
        ),
        "SASL_AUTHENTICATION_FAILED": r"failed authentication due to: (?!SSL)",
        "GROUP_MAX_SIZE_REACHED": r"max(?:imum)? size|configured maximum number of members",
        "INCONSISTENT_GROUP_PROTOCOL": r"protocols are incompatible|inconsistent \w* ?protocol",
        "INVALID_SESSION_TIMEOUT": r"session timeout is not within|invalid session timeout",
        "INVALID_GROUP_ID": r"group ?id is invalid|invalid group\.?id",
        "UNRELEASED_INSTANCE_ID": r"unreleased instance id|instance id is (?:owned|still used) by",
        "FENCED_INSTANCE_ID": (
            r"gets fenced|group instance id \S+ fenced|fenced (?:instance )?id\b|\bfenced by "
            r"|same group\.instance\.id|is identified as a known static member"
        ),
        "UNSUPPORTED_ASSIGNOR": r"assignor or its version range is not supported",
        "UNKNOWN_SERVER_ERROR": r"unexpected error when processing the request",
        "INCORRECTLY_PARTITIONED_TOPICS": r"in the following statuses: .*\(2\) ",
        "MISSING_SOURCE_TOPICS": r"in the following statuses: .*\(1\) ",
        "SHUTDOWN_APPLICATION": r"in the following statuses: .*\(4\) ",
        "INVALID_REGULAR_EXPRESSION": r"regular expression is not valid",
    }.items()
}


def name_error(reason: str) -> str | None:
    """Return the protocol's name of the error in a reason; None if it contains none."""
    answer, exception = _ANSWER.search(reason), _EXCEPTION.search(reason)
    if answer is not None:
        return str(answer[1])
    if exception is not None:
        return _name_exception(exception[1])
    names = (name for name in _PROTOCOL.findall(reason) if name in _NAMES)
    numbers = (_BY_NUMBER.get(number) for number in _NUMBER.findall(reason))
    by_words = (name for name, words in _BY_WORDS.items() if words.search(reason))
    return next(filter(None, chain(names, numbers, by_words)), None)


def _name_exception(exception: str) -> str:
    """Return the protocol's name of an error, from that of its Java exception."""
    name = _WORD_START.sub("_", exception).upper()
    return f"{name}_FAILED" if name.endswith("_AUTHORIZATION") else name
