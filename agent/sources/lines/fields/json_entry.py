"""JSON shapes of log entries: layouts of applications, and stores and exports around them.

Theory of operation. An object is read by its shape. A store wraps an entry in an object that names
its origin (Kubernetes, journald, Google Cloud, Datadog, Loki, Splunk, Elasticsearch, CloudWatch,
OTLP). Inside is a line of text, or the application's own object with a message. The innermost time
counts, and the outermost origin. All other values of an application's object are fields of its
message.
"""

import re
from collections.abc import Iterator
from typing import Any

from agent.sources.lines.fields.byte_lists import read_text
from agent.sources.lines.fields.colours import strip_colours
from agent.sources.lines.fields.decoding import Json, decode
from agent.sources.lines.fields.entry_keys import (
    MESSAGES,
    TEMPLATES,
    as_list,
    dicts,
    has_time,
    is_dated,
    level_of,
    logger_of,
)
from agent.sources.lines.fields.entry_lists import (
    LISTS,
    attributes,
    find_deep_list,
    name_pairs,
    read_list,
    remove_types,
    value_of,
)
from agent.sources.lines.fields.entry_origin import (
    ORIGIN_KEYS,
    JsonEntry,
    add_named_origin,
    add_origin,
    typed,
)
from agent.sources.lines.fields.unknown_objects import PODS, find_inner, find_longest

_PLACE = re.compile(r"\{\}")
_HOLE = re.compile(r"\{[@$]?(\w{1,64})(?:,-?\d{1,4})?(?::[^{}]{1,64})?\}")
"""A value's place in a template of Serilog."""
_LIBRDKAFKA = "[thrd:"
_CLIENT = re.compile(r"[^\s#]{0,300}#consumer-\d{1,9}")
_WRAPPERS = (
    "jsonPayload", "content", "result", "_source", "protoPayload", "@fields", "message", "map",
    "data", "body", "logEvent", "event", "properties", "record", "json", "logContent",
)  # fmt: skip
"""Keys of a store's object around the application's own."""
_INNER_WRAPPERS = ("attributes", "fields", "log")
"""The same, if the object itself has no message: Datadog's API, Rust's tracing, kafkajs's entry."""
_DEPTH = 4
"""Objects within each other: a store's, a collector's, a runtime's and the application's."""


def _name_message(found: Json) -> Json:
    """Return tslog's object, in which numbers name the arguments, with a name of the message."""
    is_numbered = "_meta" in found and isinstance(found.get("0"), str)
    return {"message": found["0"], **found} if is_numbered else found


def read_entries(found: Json, depth: int = _DEPTH) -> Iterator[JsonEntry]:
    """Yield the entries of one object; none if it has no message."""
    found = _name_message(remove_types(found))
    if "resourceLogs" in found:
        yield from _read_otlp(found)
        return
    if "values" in found and isinstance(found.get("stream"), dict):
        yield from _read_loki(found)
        return
    entry = _read_message(found, depth)
    if entry is not None:
        add_origin(entry, found)
        yield entry
        return
    if depth:
        for item in read_list(found):
            for each in read_entries(item, depth - 1):
                add_origin(each, found)
                yield each


def read_object(found: Json) -> Iterator[JsonEntry]:
    """Yield the entries of a whole line's object, also of one in no shape that is known."""
    found = name_pairs(found)
    entries = list(read_entries(found))
    if not entries and (unknown := _read_unknown(found, _DEPTH)) is not None:
        entries = [unknown]
    for entry in entries:
        if entry.kind != PODS:
            add_named_origin(entry, found)
        yield entry


def _read_unknown(found: Json, depth: int) -> JsonEntry | None:
    """Read an object without a known name of a message."""
    for value in find_inner(found) if depth else ():
        inner = decode(value) if isinstance(value, str) else value
        if inner is None:
            continue
        entry = next(read_entries(inner, depth - 1), None) or _read_unknown(inner, depth - 1)
        if entry is not None:
            add_origin(entry, found)
            return _complete(entry, found)
    text = find_longest(found)
    if text is None or not ("\n" in text or level_of(found) or is_dated(found)):
        return None
    entry = JsonEntry(text, found, found, level_of(found), logger_of(found))
    add_origin(entry, found)
    return entry


def split_export(found: Json, depth: int = _DEPTH) -> list[Json]:
    """Return the entries of an export as objects; the object itself if it is an entry."""
    if "values" in found and isinstance(found.get("stream"), dict):
        pairs = [pair for pair in as_list(found["values"]) if isinstance(pair, list) and pair]
        if len(pairs) > 1 and str(pairs[0][0]) > str(pairs[-1][0]):  # Loki's default order
            pairs.reverse()
        return [{"stream": found["stream"], "values": [pair]} for pair in pairs]
    if "resourceLogs" in found or not depth or _read_message(found, depth) is not None:
        return [found]
    outer = {
        key: value
        for key, value in found.items()
        if key in ORIGIN_KEYS and key not in LISTS and not isinstance(value, list)
    }
    items = list(read_list(found)) or find_deep_list(found)
    inner = [each for item in items for each in split_export(item, depth - 1)]
    return [{**outer, **each} for each in inner] or [found]


def _read_loki(found: Json) -> Iterator[JsonEntry]:
    """Yield the lines of one stream in a response of Loki."""
    for pair in as_list(found["values"]):
        is_line = isinstance(pair, list) and len(pair) > 1 and isinstance(pair[1], str)
        if not is_line:
            continue
        inner = decode(pair[1]) if pair[1].startswith("{") else None
        entry = None if inner is None else next(read_entries(inner, _DEPTH - 1), None)
        outer = {"timestamp": pair[0]}
        entry = JsonEntry(pair[1], outer) if entry is None else _complete(entry, outer)
        add_origin(entry, found["stream"])
        yield entry


def _read_message(found: Json, depth: int) -> JsonEntry | None:
    """Read an application's object, or a store's around it."""
    return (
        _read_wrapped(found, _WRAPPERS, depth)
        or _read_text(found, depth)
        or _read_wrapped(found, _INNER_WRAPPERS, depth)
    )


def _read_wrapped(found: Json, keys: tuple[str, ...], depth: int) -> JsonEntry | None:
    """Read the object within an object, by the first key that has an entry."""
    for key in keys if depth else ():
        inner = found.get(key)
        if not isinstance(inner, dict) or any(isinstance(inner.get(k), list) for k in LISTS):
            continue
        entry = next(read_entries(_first_values(inner), depth - 1), None)
        if entry is not None:
            return _complete(entry, found)
    return None


def _first_values(found: Json) -> Json:
    """Return an object with the first value of each list: Elasticsearch's ``fields`` are lists."""
    if not all(isinstance(value, list) and value for value in found.values()):
        return found
    return {key: value[0] for key, value in found.items()}


def _read_text(found: Json, depth: int) -> JsonEntry | None:
    """Read the message of an object; it may be a second object, encoded as text."""
    for key in MESSAGES:
        value = found.get(key)
        if isinstance(value, list) and key == "MESSAGE":
            value = read_text(value)
        if key == "short_message":
            value = _lengthen(value, found.get("full_message"))
        if isinstance(value, dict) and isinstance(value.get("Value"), str):
            value = value["Value"]  # OpenTelemetry's exporter of Go
        if isinstance(value, str):
            value = strip_colours(value)
            inner = decode(value) if depth and value.startswith("{") else None
            entry = None if inner is None else next(read_entries(inner, depth - 1), None)
            if entry is None and depth and (own := _find_log_event(found, value)) is not None:
                entry = next(read_entries(own, 0), None)
            if entry is not None:
                return _complete(entry, found)
            text = _fill(value, found) if "{" in value else value
            text = _add_client(text, found) if _LIBRDKAFKA in text else text
            return JsonEntry(text, found, _read_keys(found), level_of(found), logger_of(found))
    return None


def _read_keys(found: Json) -> Json:
    """Return an object with the attributes that OpenTelemetry's exporter of Go writes as a list."""
    if "Attributes" not in found:
        return found
    pairs = {str(each.get("Key")): typed(each.get("Value")) for each in dicts(found, "Attributes")}
    return {**found, **pairs}


def _find_log_event(found: Json, text: str) -> Json | None:
    """Return librdkafka's log event within the fields of a message that a program gave it."""
    if _LIBRDKAFKA in text:
        return None
    inner: Iterator[Json] = (value for value in found.values() if isinstance(value, dict))
    return next((each for each in inner if _LIBRDKAFKA in "".join(_texts(each))), None)


def _texts(found: Json) -> Iterator[str]:
    return (value for value in found.values() if isinstance(value, str))


def _lengthen(short: Any, full: Any) -> Any:
    """Return the first line of GELF's whole message if the short one is cut off."""
    is_begin = isinstance(short, str) and isinstance(full, str) and full.startswith(short)
    return full.partition("\n")[0] if is_begin and "\n" not in short else short


def _add_client(text: str, found: Json) -> str:
    """Return a line of librdkafka with its client's name in front, if a field holds the name."""
    if "#consumer-" in text:
        return text
    inner = (value for value in found.values() if isinstance(value, dict))
    texts = (text for each in (found, *inner) for text in _texts(each))
    name = next(filter(_CLIENT.fullmatch, texts), None)
    return text if name is None else f"{name} {text}"


def _fill(message: str, found: Json) -> str:
    """Return a message with its values: Logback's JsonEncoder and Serilog have them in fields."""
    arguments = iter(as_list(found.get("arguments")))
    message = _PLACE.sub(lambda place: str(next(arguments, place[0])), message)
    if found.keys().isdisjoint(TEMPLATES):
        return message
    properties = found.get("Properties")
    values = {**found, **(properties if isinstance(properties, dict) else {})}
    return _HOLE.sub(lambda hole: str(values.get(hole[1], hole[0])), message)


def _complete(entry: JsonEntry, outer: Json) -> JsonEntry:
    """Add the time and the level of the object around an entry."""
    if not has_time(entry.times) and (has_time(outer) or not is_dated(entry.times)):
        entry.times = outer
    entry.level = entry.level or level_of(outer)
    entry.logger = entry.logger or logger_of(outer)
    return entry


def _read_otlp(found: Json) -> Iterator[JsonEntry]:
    """Yield the records of OTLP's JSON, as the collector's file exporter writes it."""
    for resource in dicts(found, "resourceLogs"):
        outer = attributes(resource.get("resource"))
        for scope in dicts(resource, "scopeLogs"):
            name = scope.get("scope")
            for record in dicts(scope, "logRecords"):
                body = value_of(record.get("body"))
                is_text = isinstance(body, str)
                inner = decode(body) if is_text and body.startswith("{") else body
                entry = (
                    next(read_entries(inner, _DEPTH - 1), None) if isinstance(inner, dict) else None
                )
                if entry is None and not is_text:
                    continue
                if entry is None:
                    entry = JsonEntry(body, record)
                    entry.fields = attributes(record)
                    entry.logger = name.get("name") if isinstance(name, dict) else None
                _complete(entry, record)
                add_origin(entry, outer)
                yield entry
