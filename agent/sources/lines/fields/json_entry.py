"""JSON shapes of log entries: layouts of applications, and stores and exports around them.

Theory of operation. An object is read by its shape. A store wraps an entry in an object that names
its origin (Kubernetes, journald, Google Cloud, Datadog, Loki, Splunk, Elasticsearch, CloudWatch,
OTLP). Inside is a line of text, or the application's own object with a message. The innermost time
counts, and the outermost origin. All other values of an application's object are fields of its
message.
"""

import contextlib
import json
import re
from ast import literal_eval
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from agent.sources.lines.fields.byte_lists import read_text
from agent.sources.lines.fields.colours import strip_colours
from agent.sources.lines.fields.unknown_objects import (
    CONTAINERS,
    HOSTS,
    INSTANCES,
    PODS,
    find_inner,
    find_longest,
    find_names,
)
from metrics.model.names import clip_name

Json = dict[str, Any]

_REPR_MAX_CHARS = 1 << 16
_DECODER = json.JSONDecoder()
"""Reads an object with text behind it, which msgspec refuses."""
_HALF = re.compile(r"\\u[dD][89a-fA-F][\da-fA-F]{2}", re.ASCII)
"""An escape of UTF-16 for half of a character, as Python's JSON writes a byte that is no UTF-8."""
_OF_CLOJURE = re.compile(
    r':([\w./-]{1,64}) ((?:#inst )?"(?:[^"\\]|\\.){0,65536}"|[^\s,{}"\[\]()]{1,256})'
)
"""A keyword and its value in a map of EDN, as mulog prints it; inner maps are not read."""
_LOGFMT = re.compile(r'[A-Za-z_@][\w.@/-]{0,63}=(?:"|[^\s"=]{0,1024}(?: |$))', re.ASCII)
_LOGFMT_PAIR = re.compile(
    r'(?<!\S)([A-Za-z_@][\w.@/-]{0,63})=(?:"((?:[^"\\]|\\.){0,65536})"|([^\s"]{0,8192}))(?!\S)'
)
_TABBED_FIELD = re.compile(r"([A-Za-z_][\w.-]{0,63})[:=]([^\t]{0,65536})")
# https://ltsv.org/ and the format TSKV of ClickHouse
_TABBED = re.compile(
    r"(?:tskv\t)?[A-Za-z_][\w.-]{0,63}[:=][^\t]*(?:\t[A-Za-z_][\w.-]{0,63}[:=][^\t]*){1,64}"
)
_PLACE = re.compile(r"\{\}")
_HOLE = re.compile(r"\{[@$]?(\w{1,64})(?:,-?\d{1,4})?(?::[^{}]{1,64})?\}")
"""A value's place in a template of Serilog."""
_LIBRDKAFKA = "[thrd:"
_CLIENT = re.compile(r"[^\s#]{0,300}#consumer-\d{1,9}")
TEMPLATES = ("@mt", "MessageTemplate", "messageTemplate")
"""Message templates with values in other fields: Serilog's, without a rendered message."""
MESSAGES = (
    "formattedMessage", "message", "msg", "short_message", "log", "event", "MESSAGE", "textPayload",
    "line", "@message",
    "_raw", "body", "short_msg", "text", "stringValue", "content", "@m", "_msg", "RenderedMessage",
    "LogMessage", "LogEntry", "rawlog", "Body", "Log", "Log_s", "LogEntry_s", "Message", "Line",
    "@rawstring", "logmsg", "_line", "M", "Content", "raw", "m",
    *TEMPLATES,
    "logMessage", "log_message", "log.message", "Msg", "rawMessage", "raw_message", "_message",
    "messageText", "message_text", "rendered_message", "renderedMessage", "full_message", "entry",
)  # fmt: skip
"""ECS, Logstash and log4j2's JsonLayout; pino, bunyan, zap and slog; GELF; fluentd; structlog; then
journald, Google Cloud, Loki, CloudWatch, Splunk, OTLP, Datadog; names that users give it."""
_WRAPPERS = (
    "jsonPayload", "content", "result", "_source", "protoPayload", "@fields", "message", "map",
    "data", "body", "logEvent", "event", "properties", "record", "json", "logContent",
)  # fmt: skip
"""Keys of a store's object around the application's own."""
_INNER_WRAPPERS = ("attributes", "fields", "log")
"""The same, if the object itself has no message: Datadog's API, Rust's tracing, kafkajs's entry."""
_LISTS = (
    "logEvents", "events", "hits", "entries", "results", "data", "Items", "logs", "result",
    "messages", "streams", "tables", "list", "records",
)  # fmt: skip
"""Keys of a store's object around several entries."""
TIMES = (
    "entry_timestamp", "@timestamp", "timestamp", "time", "ts", "timeMillis", "asctime",
    "__REALTIME_TIMESTAMP",
    "timeUnixNano", "observedTimeUnixNano", "_time", "eventTime", "datetime", "date", "t",
    "Timestamp", "@t", "log_time", "receiveTimestamp", "ingestionTime", "_timestamp",
    "TimeGenerated", "TimeStamp", "Date", "Time", "dt", "__time__", "_time_", "_messagetime",
    "received_at", "EventTime", "ibm_datetime", "_ts", "TimeCreated", "Date and Time", "T",
    "timestamp_nanos", "__TIMESTAMP__",
)  # fmt: skip
_OTHER_TIMES = re.compile(
    r"(?:[\w.-]{1,24}/)?[\W_]?(?:(?:log|event|received?|record|message|msg|utc|iso|local|server|system|unix|app|creation)[\W_]?){0,3}"
    r"(?:time[\W_]?stamp|date[\W_]?time|time|date|ts|(?:time|date)?(?:created|logged|emitted|occurred|reported|generated)(?:[\W_]?at)?"
    r"|instant|when|epoch)"
    r"(?:[\W_]?(?:utc|iso|ms|us|ns|millis|micros|nanos|seconds?|milliseconds))?",
    re.IGNORECASE | re.ASCII,
)
"""Names that people give a time in a layout of their own, after those above."""
_NAME_CHARS, _NAMES = 40, 64
_YEAR = re.compile(r"(?<!\d)20\d\d(?!\d)")
_LEVELS = (
    "level", "severity", "lvl", "severityText", "log.level", "levelname", "level_name", "@l",
    "loglevel", "Level", "LogLevel", "L",
)  # fmt: skip
_LOGGERS = ("log.logger", "logger_name", "loggerName", "logger", "_logger", "log_name", "name")
_PODS = (
    "kubernetes.pod_name", "kubernetes.pod.name", "k8s.pod.name", "labels.pod", "labels.pod_name",
    "resource.labels.pod_name", "pod", "pod_name", "podName", "stream.pod", "labels.k8s-pod/name",
    "labels.k8s_pod_name", "kubernetes.pod", "kubernetes_pod_name", "k8s_pod_name", "PodName",
    "fields.pod", "properties.pod", "_pod_name_", "__tag__:_pod_name_", "PodName_s",
    "ContainerGroupName_s", "ContainerGroupName", "ReplicaName", "Pod", "Pod Name",
    "source.podName", "@pod_name", "kube_pod_name", "@kubernetes.pod_name",
)  # fmt: skip
_CONTAINERS = (
    "kubernetes.container_name", "kubernetes.container.name", "k8s.container.name",
    "resource.labels.container_name", "labels.container", "container_name", "CONTAINER_NAME",
    "container.name", "stream.container", "containerName", "kubernetes_container_name",
    "ContainerName", "_container_name_", "__tag__:_container_name_", "attrs.tag",
    "docker.container_name", "_container_name",
    "event.tag",
)  # fmt: skip
_UNITS = ("_SYSTEMD_UNIT", "unit", "SYSLOG_IDENTIFIER", "service.instance.id")
_STREAMS = (
    "logStream",
    "@logStream",
    "logStreamName",
    "log_stream",
    "labels.instance",
    "stream.instance",
    "stream_name",
)
_HOSTS = (
    "host.name", "host.hostname", "_HOSTNAME", "hostname", "host", "HOSTNAME", "agent.hostname",
    "resource.labels.instance_id", "labels.host", "source_host", "dyno", "hostName", "Host",
    "_sourcehost", "_sourceHost", "cloud_RoleInstance", "event.syslog.host", "Hostname", "_host",
    "MachineName", "HOST", "syslog.host", "server_name", "__source__",
)  # fmt: skip
_PIDS = ("_PID", "process.pid", "pid", "process_id", "PROCID", "processId", "PID")
_CONTAINER_IDS = (
    "container.id", "container_id", "docker.container_id", "ContainerId_s", "ContainerID",
    "containerId", "_container_id",
)  # fmt: skip
_INSTANCES = (
    "labels.instanceId", "service.node.name", "service.instance.id", "alloc_id", "ecs_task_arn",
    "log.file.path", "file", "filename", "labels.filename", "stream.filename",
    "instance", "replica", "replicaId", "attributes.replicaId", "fly.app.instance",
    "task", "Task", "task_id", "tags.deploymentInstanceId", "resource.id",
)  # fmt: skip
"""Identity without a name for people, of programs that have no pod."""
_ORIGINS = (*_CONTAINER_IDS, *_INSTANCES, *_PODS, *_CONTAINERS, *_UNITS, *_STREAMS, *_HOSTS, *_PIDS)
_RESOURCES = (
    "ResourceAttributes", "resource", "resource_attributes", "resources", "data",
    "resources_string", "additionalColumns", "Resource",
)  # fmt: skip
"""Objects with the attributes of a resource; their names have dots: OpenTelemetry's tables."""
_OF_GRAYLOG = ("gl2_message_id", "gl2_source_input", "gl2_source_node")
"""Fields that Graylog adds to each message; its field ``source`` is the host."""
_STREAM_LABEL = re.compile(r'"?([\w./-]{1,64})"?="((?:[^"\\]|\\.){0,1024})"')
"""A label in the text that VictoriaLogs makes of a stream's."""
_ORIGIN_KEYS = frozenset(
    (
        *_ORIGINS,
        *(path.split(".")[0] for path in _ORIGINS),
        *(*_RESOURCES, *_OF_GRAYLOG, "tags", "ddtags", "process", "_stream", "source_id"),
    )
)
_NO_FIELDS = frozenset((*MESSAGES, *TIMES, *_LEVELS, *_LOGGERS, "caller", "source", "stacktrace"))
_NAMED = (PODS, CONTAINERS, HOSTS, INSTANCES)
_TYPES = frozenset(("S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS"))
"""Types of DynamoDB's values, each the only key of an object."""
_DEPTH = 4
"""Objects within each other: a store's, a collector's, a runtime's and the application's."""
_DEEP = 8
"""Objects around the list in the response of an API."""


class JsonEntry(msgspec.Struct, gc=False):
    """One entry of a JSON line."""

    text: str
    times: Json
    """The object that holds its time."""
    fields: Json | None = None
    level: str = ""
    logger: str | None = None
    origin: str = ""
    host: str = ""
    pid: str = ""
    kind: int | None = None
    """What the origin names: a pod or a container; None is anything else."""


def decode(text: str) -> Json | None:
    """Return the object that a text is, None for anything else."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):  # cut off, or nested without end
        return _decode_other(text)
    return found if isinstance(found, dict) else None


def decode_first(text: str, begin: int) -> tuple[Json, int]:
    """Return the object that begins at a brace, and the place behind it.

    Raises:
        ValueError, RecursionError: there is no such object.

    """
    found, end = _DECODER.raw_decode(text, begin)
    return (found if _HALF.search(text, begin, end) is None else _write_halves(found)), end


def _write_halves(found: Json) -> Json:
    """Return an object with a question mark for each half of a character, which no text can hold.

    Raises:
        ValueError, RecursionError: a value that JSON cannot hold.

    """
    text = json.dumps(found, ensure_ascii=False).encode(errors="replace")
    return msgspec.json.decode(text, type=Json)


def _decode_other(text: str) -> Json | None:
    """Return an object with half of a character, or what Python or Clojure printed as a map."""
    if text.startswith("{:"):
        pairs = _OF_CLOJURE.findall(text[:_REPR_MAX_CHARS])
        return {name: _read_clojure(value) for name, value in pairs} or None
    if text.startswith("{'"):
        return _decode_repr(text)
    if text.startswith("{") and _HALF.search(text) is not None:
        with contextlib.suppress(ValueError, RecursionError):
            found, end = decode_first(text, 0)
            return None if text[end:].strip() else found
    return None


def _read_clojure(value: str) -> Any:
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.decode(value)
    return value.removeprefix("#inst ").strip('"')


def _decode_repr(text: str) -> Json | None:
    """Return a dictionary that Python printed; None for anything else."""
    try:
        found = literal_eval(text) if len(text) <= _REPR_MAX_CHARS else None
        found = msgspec.to_builtins(found, str_keys=True)  # a key may be a number
        return _check(found) if isinstance(found, dict) else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _check(found: Json) -> Json:
    """Return an object whose values can be written: a number in hex may have any length.

    Raises:
        ValueError, RecursionError: a value that JSON cannot hold.

    """
    try:
        msgspec.json.encode(found)
    except UnicodeEncodeError:
        return _write_halves(found)
    return found


def read_pairs(text: str) -> Json | None:
    """Return the pairs of a line of logfmt; None unless they name an origin, a time, a message."""
    if _LOGFMT.match(text) is None:
        return None
    found: Json = {
        name: plain or quoted.replace('\\"', '"').replace("\\\\", "\\")
        for name, quoted, plain in _LOGFMT_PAIR.findall(text)
    }
    is_labelled = str(found.get("labels", "")).startswith("{")
    is_of_origin = is_labelled or not found.keys().isdisjoint(_ORIGINS)
    return found if is_of_origin and is_entry(found) and has_time(found) else None


def read_tabbed(text: str) -> Json | None:
    """Return the fields of a line of LTSV or TSKV; None unless they are an entry."""
    if _TABBED.fullmatch(text) is None:
        return None
    fields = (_TABBED_FIELD.fullmatch(field) for field in text.split("\t"))
    found: Json = {field[1]: field[2] for field in fields if field is not None}
    return found if is_entry(found) else None


def _remove_types(found: Json) -> Json:
    """Return an item of DynamoDB without its types; any other object as it is."""
    for value in found.values():
        if type(value) is not dict or len(value) != 1 or _TYPES.isdisjoint(value):
            return found
    return {key: next(iter(value.values())) for key, value in found.items()}


def _name_message(found: Json) -> Json:
    """Return tslog's object, in which numbers name the arguments, with a name of the message."""
    is_numbered = "_meta" in found and isinstance(found.get("0"), str)
    return {"message": found["0"], **found} if is_numbered else found


def read_entries(found: Json, depth: int = _DEPTH) -> Iterator[JsonEntry]:
    """Yield the entries of one object; none if it has no message."""
    found = _name_message(_remove_types(found))
    if "resourceLogs" in found:
        yield from _read_otlp(found)
        return
    if "values" in found and isinstance(found.get("stream"), dict):
        yield from _read_loki(found)
        return
    entry = _read_message(found, depth)
    if entry is not None:
        _add_origin(entry, found)
        yield entry
        return
    if depth:
        for item in _read_list(found):
            for each in read_entries(item, depth - 1):
                _add_origin(each, found)
                yield each


def _name_pairs(found: Json) -> Json:
    """Return an object with objects in place of its lists of keys and values: Coralogix's."""
    lists = {key: found[key] for key in ("metadata", "labels") if type(found.get(key)) is list}
    named = {
        name: {each["key"]: each.get("value") for each in pairs}
        for name, pairs in lists.items()
        if all(isinstance(each, dict) and isinstance(each.get("key"), str) for each in pairs)
    }
    return {**found, **named} if named else found


def read_object(found: Json) -> Iterator[JsonEntry]:
    """Yield the entries of a whole line's object, also of one in no shape that is known."""
    found = _name_pairs(found)
    entries = list(read_entries(found))
    if not entries and (unknown := _read_unknown(found, _DEPTH)) is not None:
        entries = [unknown]
    for entry in entries:
        if entry.kind != PODS:
            _add_named_origin(entry, found)
        yield entry


def _read_unknown(found: Json, depth: int) -> JsonEntry | None:
    """Read an object without a known name of a message."""
    for value in find_inner(found) if depth else ():
        inner = decode(value) if isinstance(value, str) else value
        if inner is None:
            continue
        entry = next(read_entries(inner, depth - 1), None) or _read_unknown(inner, depth - 1)
        if entry is not None:
            _add_origin(entry, found)
            return _complete(entry, found)
    text = find_longest(found)
    if text is None or not ("\n" in text or level_of(found) or _is_dated(found)):
        return None
    entry = JsonEntry(text, found, found, level_of(found), _logger_of(found))
    _add_origin(entry, found)
    return entry


def _add_named_origin(entry: JsonEntry, found: Json) -> None:
    """Add the origin that the names of an object's fields show; a pod is the most specific."""
    names = find_names(found)
    if PODS in names or not entry.origin:
        name = next((names[kind] for kind in _NAMED if kind in names), "")
        entry.host = entry.origin = clip_name(name)
    elif CONTAINERS in names and entry.kind != CONTAINERS:
        entry.origin = clip_name(f"{entry.origin}/{names[CONTAINERS]}")


def split_export(found: Json, depth: int = _DEPTH) -> list[Json]:
    """Return the entries of an export as objects; the object itself if it is an entry."""
    if "values" in found and isinstance(found.get("stream"), dict):
        pairs = [pair for pair in _list(found["values"]) if isinstance(pair, list) and pair]
        if len(pairs) > 1 and str(pairs[0][0]) > str(pairs[-1][0]):  # Loki's default order
            pairs.reverse()
        return [{"stream": found["stream"], "values": [pair]} for pair in pairs]
    if "resourceLogs" in found or not depth or _read_message(found, depth) is not None:
        return [found]
    outer = {
        key: value
        for key, value in found.items()
        if key in _ORIGIN_KEYS and key not in _LISTS and not isinstance(value, list)
    }
    items = list(_read_list(found)) or _find_deep_list(found)
    inner = [each for item in items for each in split_export(item, depth - 1)]
    return [{**outer, **each} for each in inner] or [found]


def _find_deep_list(found: Json) -> list[Json]:
    """Return the entries of a list within objects that hold nothing else: New Relic's NerdGraph."""
    for _ in range(_DEEP):
        inner = [value for value in found.values() if isinstance(value, dict)]
        if len(inner) != 1:
            break
        found = inner[0]
        items = [item for key in _LISTS for item in _dicts(found, key)]
        if items:
            return items
    return []


def _read_list(found: Json) -> Iterator[Json]:
    """Yield the entries of an export."""
    yield from _read_table(found)
    for key in _LISTS:
        inner = found.get(key)
        if isinstance(inner, dict):  # hits.hits of a search, data.result of Loki
            yield from (each for name in _LISTS for each in _dicts(inner, name))
        else:
            yield from _dicts(found, key)
            yield from _read_columns(inner)


def _read_table(found: Json) -> Iterator[Json]:
    """Yield the rows of a table with a separate list of column names.

    Tables of Azure, Elasticsearch's SQL and ES|QL, Splunk's JSON rows and Graylog's search.
    """
    names = [str(column["name"]) for column in _dicts(found, "columns") if "name" in column]
    schema = _dicts(found, "schema")  # Graylog's, and that of OpenSearch's SQL and PPL
    names += [str(each.get("field") or each.get("name")) for each in schema]
    fields = found.get("fields")
    rows = next((found[key] for key in ("rows", "values", "datarows") if key in found), None)
    if not names and isinstance(fields, list):
        names = list(map(str, fields))
    for row in rows if names and isinstance(rows, list) else ():
        if isinstance(row, list):
            cells = dict(zip(names, row, strict=False))
            yield {"host": cells.get("source"), **cells} if "schema" in found else cells


def _read_columns(rows: Any) -> Iterator[Json]:
    """Yield the rows of CloudWatch Insights: lists of fields and values."""
    for row in rows if isinstance(rows, list) else ():
        cells = row if isinstance(row, list) else ()
        pairs = {
            cell["field"]: cell.get("value")
            for cell in cells
            if isinstance(cell, dict) and isinstance(cell.get("field"), str)
        }
        if pairs:
            yield pairs


def _read_loki(found: Json) -> Iterator[JsonEntry]:
    """Yield the lines of one stream in a response of Loki."""
    for pair in _list(found["values"]):
        is_line = isinstance(pair, list) and len(pair) > 1 and isinstance(pair[1], str)
        if not is_line:
            continue
        inner = decode(pair[1]) if pair[1].startswith("{") else None
        entry = None if inner is None else next(read_entries(inner, _DEPTH - 1), None)
        outer = {"timestamp": pair[0]}
        entry = JsonEntry(pair[1], outer) if entry is None else _complete(entry, outer)
        _add_origin(entry, found["stream"])
        yield entry


def has_time(found: Mapping[str, Any]) -> bool:
    """Return whether an object has a key of a time."""
    return not found.keys().isdisjoint(TIMES) or "instant" in found or "timestampSeconds" in found


def read_other_times(found: Mapping[str, Any]) -> Iterator[str | float]:
    """Yield the values of an object that may be its time, if it has no key of a known one."""
    for key, value in islice(found.items(), _NAMES):
        if len(key) > _NAME_CHARS or _OTHER_TIMES.fullmatch(key) is None:
            continue
        is_text = isinstance(value, str) and len(value) <= _NAME_CHARS
        if is_text and (value.isdecimal() or _YEAR.search(value) is not None):
            yield int(value) if value.isdecimal() else value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield value


def _is_dated(found: Json) -> bool:
    return has_time(found) or next(read_other_times(found), None) is not None


def is_entry(found: Json) -> bool:
    """Return whether an object is an entry by itself: a message with a level or a time."""
    return not found.keys().isdisjoint(MESSAGES) and (
        has_time(found) or not found.keys().isdisjoint(_LEVELS)
    )


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
        if not isinstance(inner, dict) or any(isinstance(inner.get(k), list) for k in _LISTS):
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
            return JsonEntry(text, found, _read_keys(found), level_of(found), _logger_of(found))
    return None


def _read_keys(found: Json) -> Json:
    """Return an object with the attributes that OpenTelemetry's exporter of Go writes as a list."""
    if "Attributes" not in found:
        return found
    pairs = {
        str(each.get("Key")): _typed(each.get("Value")) for each in _dicts(found, "Attributes")
    }
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
    texts = (value for value in found.values() if isinstance(value, str))
    name = next(filter(_CLIENT.fullmatch, texts), None)
    return text if name is None else f"{name} {text}"


def _fill(message: str, found: Json) -> str:
    """Return a message with its values: Logback's JsonEncoder and Serilog have them in fields."""
    arguments = iter(_list(found.get("arguments")))
    message = _PLACE.sub(lambda place: str(next(arguments, place[0])), message)
    if found.keys().isdisjoint(TEMPLATES):
        return message
    properties = found.get("Properties")
    values = {**found, **(properties if isinstance(properties, dict) else {})}
    return _HOLE.sub(lambda hole: str(values.get(hole[1], hole[0])), message)


def _complete(entry: JsonEntry, outer: Json) -> JsonEntry:
    """Add the time and the level of the object around an entry."""
    if not has_time(entry.times) and (has_time(outer) or not _is_dated(entry.times)):
        entry.times = outer
    entry.level = entry.level or level_of(outer)
    entry.logger = entry.logger or _logger_of(outer)
    return entry


def _add_origin(entry: JsonEntry, found: Json) -> None:
    """Add the origin that an object names; the outermost one counts."""
    if found.keys().isdisjoint(_ORIGIN_KEYS):
        return
    for inner in (*map(found.get, _RESOURCES), *_read_labels(found)):
        if isinstance(inner, dict):
            _add_origin(entry, inner)
    pod, container = _first(found, _PODS) or _pod_of_tags(found), _first(found, _CONTAINERS)
    container = container.removeprefix("/")  # Docker's API writes /name
    process = found.get("process")  # process-compose's name; a number is Python's process id
    unit = _first(found, _UNITS) or (process if isinstance(process, str) else "")
    stream, host = _first(found, _STREAMS), _first(found, _HOSTS)
    if entry.kind == PODS and not pod:  # a store's host or stream holds many pods
        return
    entry.kind = PODS if pod else CONTAINERS if container else None
    name = pod or container or stream or host or unit
    ids = _INSTANCES if container else (*_CONTAINER_IDS, *_INSTANCES)
    instance = "" if pod else _first(found, ids)
    if name or instance:
        within = (container if pod else "") or ("" if pod or container or stream else unit)
        entry.host = clip_name(name)
        parts = (name, within, instance)
        entry.origin = clip_name("/".join(dict.fromkeys(part for part in parts if part)))
    entry.pid = clip_name(_first(found, _PIDS)) or entry.pid


def _read_labels(found: Json) -> Iterator[Json]:
    """Yield origins in other shapes than fields: lists of labels, labels as a text."""
    labels, stream = found.get("labels"), found.get("_stream")
    if isinstance(labels, list):  # of Render's API
        pairs = (each for each in labels if isinstance(each, dict))
        yield {"labels": {str(each.get("name")): each.get("value") for each in pairs}}
    for text in (stream, labels):  # VictoriaLogs', Alloy's
        if isinstance(text, str) and text.startswith("{"):
            yield {"labels": dict(_STREAM_LABEL.findall(text))}
    if isinstance(found.get("Resource"), list):  # of OpenTelemetry's exporter of Go
        each_pair = _dicts(found, "Resource")
        yield {str(each.get("Key")): _typed(each.get("Value")) for each in each_pair}
    if not found.keys().isdisjoint(_OF_GRAYLOG):
        yield {"host": found.get("source")}
    if "source_id" in found and "instance_id" in found:  # of Cloud Foundry's log cache
        yield {"instance": found["instance_id"]}


def _typed(value: Any) -> Any:
    return value.get("Value") if isinstance(value, dict) else value


def _pod_of_tags(found: Json) -> str:
    """Return the pod that Datadog's tags name."""
    tags = found.get("tags") or found.get("ddtags")
    tags = tags.split(",") if isinstance(tags, str) else tags
    texts = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    return next((text[9:] for text in texts if text.startswith("pod_name:")), "")


def _read_otlp(found: Json) -> Iterator[JsonEntry]:
    """Yield the records of OTLP's JSON, as the collector's file exporter writes it."""
    for resource in _dicts(found, "resourceLogs"):
        outer = _attributes(resource.get("resource"))
        for scope in _dicts(resource, "scopeLogs"):
            name = scope.get("scope")
            for record in _dicts(scope, "logRecords"):
                body = _value(record.get("body"))
                is_text = isinstance(body, str)
                inner = decode(body) if is_text and body.startswith("{") else body
                entry = (
                    next(read_entries(inner, _DEPTH - 1), None) if isinstance(inner, dict) else None
                )
                if entry is None and not is_text:
                    continue
                if entry is None:
                    entry = JsonEntry(body, record)
                    entry.fields = _attributes(record)
                    entry.logger = name.get("name") if isinstance(name, dict) else None
                _complete(entry, record)
                _add_origin(entry, outer)
                yield entry


def _attributes(found: Any) -> Json:
    """Return OTLP's attributes as an object."""
    return _pairs(found, "attributes")


def _pairs(found: Any, key: str) -> Json:
    """Return OTLP's list of keys and values as an object."""
    return {
        each["key"]: _value(each.get("value"))
        for each in _dicts(found if isinstance(found, dict) else {}, key)
        if isinstance(each.get("key"), str) and each.get("value")
    }


def _value(found: Any) -> Any:
    """Return OTLP's value without its type; a map becomes an object."""
    if not isinstance(found, dict) or not found:
        return None
    kind, value = next(iter(found.items()))
    return _pairs(value, "values") if kind == "kvlistValue" else value


def _dicts(found: Json, key: str) -> Iterator[Json]:
    yield from (each for each in _list(found.get(key)) if isinstance(each, dict))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _first(found: Json, paths: tuple[str, ...]) -> str:
    """Return the first text under some keys; a key may be a path with dots. Empty: none."""
    for path in paths:
        value = found.get(path)
        if value is None and "." in path:
            value = found
            for part in path.split("."):
                value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)
    return ""


def level_of(found: Json) -> str:
    """Return an entry's level, in capitals, or an empty text."""
    for key in _LEVELS:
        value = found.get(key)
        if isinstance(value, str):
            return value.upper()
    return ""


def _logger_of(found: Json) -> str | None:
    log = found.get("log")  # ECS with nested fields
    nested = log.get("logger") if isinstance(log, dict) else None
    return nested if isinstance(nested, str) else _first(found, _LOGGERS) or None
