"""The origin of a log entry: the pod, container, unit, stream or host that its fields name."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from agent.sources.lines.fields.decoding import Json
from agent.sources.lines.fields.entry_keys import dicts, first
from agent.sources.lines.fields.unknown_objects import (
    CONTAINERS,
    HOSTS,
    INSTANCES,
    PODS,
    find_names,
)
from metrics.model.names import clip_name

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
_CODE = re.compile(
    r".*\.(?:go|py|pyx|java|kt|scala|clj|groovy|[cm]?[jt]sx?|rs|[cf]s|vb|rb|exs?|erl|php|swift"
    r"|c|cc|cpp|hpp|h)(?::\d{1,9}){0,2}",
    re.ASCII,
)
_OF_A_LINE = {"file": _CODE, "filename": _CODE, "task": re.compile(r"Task-\d{1,9}", re.ASCII)}
"""Values that are no identity: the code that logged a line (logrus' caller, Python's), and a task
of asyncio. Each line may have another one."""
_VALUE_CHARS = 256
ORIGINS = (*_CONTAINER_IDS, *_INSTANCES, *_PODS, *_CONTAINERS, *_UNITS, *_STREAMS, *_HOSTS, *_PIDS)
_RESOURCES = (
    "ResourceAttributes", "resource", "resource_attributes", "resources", "data",
    "resources_string", "additionalColumns", "Resource",
)  # fmt: skip
"""Objects with the attributes of a resource; their names have dots: OpenTelemetry's tables."""
_OF_GRAYLOG = ("gl2_message_id", "gl2_source_input", "gl2_source_node")
"""Fields that Graylog adds to each message; its field ``source`` is the host."""
_STREAM_LABEL = re.compile(r'"?([\w./-]{1,64})"?="((?:[^"\\]|\\.){0,1024})"')
"""A label in the text that VictoriaLogs makes of a stream's."""
ORIGIN_KEYS = frozenset(
    (
        *ORIGINS,
        *(path.split(".")[0] for path in ORIGINS),
        *(*_RESOURCES, *_OF_GRAYLOG, "tags", "ddtags", "process", "_stream", "source_id"),
        "specversion",
    )
)
_TAGS = ("fluentd_tag", "fluent_tag", "fluentbit_tag", "_tag", "@log_name")
"""Names that people give the tag of fluentd and Fluent Bit in a record."""
_ROUTE = re.compile(r"(?!v?\d)(?=[^\d]*\d)[\w-]{1,128}(?:\.[\w*-]{1,128}){1,16}", re.ASCII)
"""A tag of several parts with a number, as ``app.pay-1``."""
_NAMED = (PODS, CONTAINERS, HOSTS, INSTANCES)


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


def add_named_origin(entry: JsonEntry, found: Json) -> None:
    """Add the origin that the names of an object's fields show; a pod is the most specific."""
    names = find_names(found)
    if PODS in names or not entry.origin:
        name = next((names[kind] for kind in _NAMED if kind in names), "") or _find_tag(found)
        entry.host = entry.origin = clip_name(name)
    elif CONTAINERS in names and entry.kind != CONTAINERS:
        entry.origin = clip_name(f"{entry.origin}/{names[CONTAINERS]}")


def _find_tag(found: Json) -> str:
    """Return the tag of a collector's route, which may name a stream where nothing else does."""
    if name := first(found, _TAGS):
        return name
    tag = found.get("tag")  # an application may have a tag for each message, or of a release
    return tag if isinstance(tag, str) and _ROUTE.fullmatch(tag) is not None else ""


def add_origin(entry: JsonEntry, found: Json) -> None:
    """Add the origin that an object names; the outermost one counts."""
    if found.keys().isdisjoint(ORIGIN_KEYS):
        return
    for inner in (*map(found.get, _RESOURCES), *_read_labels(found)):
        if isinstance(inner, dict):
            add_origin(entry, inner)
    pod, container = first(found, _PODS) or _pod_of_tags(found), first(found, _CONTAINERS)
    container = container.removeprefix("/")  # Docker's API writes /name
    process = found.get("process")  # process-compose's name; a number is Python's process id
    unit = first(found, _UNITS) or (process if isinstance(process, str) else "")
    stream, host = first(found, _STREAMS), first(found, _HOSTS)
    if entry.kind == PODS and not pod:  # a store's host or stream holds many pods
        return
    entry.kind = PODS if pod else CONTAINERS if container else None
    name = pod or container or stream or host or unit
    ids: tuple[str, ...] = _INSTANCES if container else (*_CONTAINER_IDS, *_INSTANCES)
    if of_line := _list_of_a_line(found):
        ids = tuple(key for key in ids if key not in of_line)
    instance = "" if pod else first(found, ids)
    if name or instance:
        within = (container if pod else "") or ("" if pod or container or stream else unit)
        entry.host = clip_name(name)
        parts = (name, within, instance)
        entry.origin = clip_name("/".join(dict.fromkeys(part for part in parts if part)))
    entry.pid = clip_name(first(found, _PIDS)) or entry.pid


def _list_of_a_line(found: Json) -> list[str]:
    """Return the keys whose values are of a line, not of its stream."""
    texts = {key: found[key] for key in _OF_A_LINE if isinstance(found.get(key), str)}
    return [key for key, text in texts.items() if _OF_A_LINE[key].fullmatch(text[-_VALUE_CHARS:])]


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
        each_pair = dicts(found, "Resource")
        yield {str(each.get("Key")): typed(each.get("Value")) for each in each_pair}
    if "specversion" in found:  # CloudEvents
        yield {"instance": found.get("source")}
    if not found.keys().isdisjoint(_OF_GRAYLOG):
        yield {"host": found.get("source")}
    if "source_id" in found and "instance_id" in found:  # of Cloud Foundry's log cache
        yield {"instance": found["instance_id"]}


def typed(value: Any) -> Any:
    """Return a value without the type that OpenTelemetry's exporter of Go writes around it."""
    return value.get("Value") if isinstance(value, dict) else value


def _pod_of_tags(found: Json) -> str:
    """Return the pod that Datadog's tags name."""
    tags = found.get("tags") or found.get("ddtags")
    tags = tags.split(",") if isinstance(tags, str) else tags
    texts = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    return next((text[9:] for text in texts if text.startswith("pod_name:")), "")
