"""Injection of the sidecar into Kubernetes' manifests of any kind with a pod; idempotent.

The additions of an earlier run are removed first, so that other options replace them.
"""

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any, cast

import yaml

from agent.config.yaml_loader import construct_int
from agent.errors import ConfigError
from agent.kubernetes.sidecar import ANNOTATION, LABEL, NAME, Folder, Sidecar

_POD_AT = {
    "Pod": (),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""The path of each kind's pod template."""

Mapping = dict[str, Any]
_TEXT = "tag:yaml.org,2002:str"
_TEXT_TAGS = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"}
_NUMBER_TAGS = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}


class _ManifestLoader(yaml.SafeLoader):
    """Reads times and numbers in base 60 as text, as Kubernetes does: `8080:22` is no number."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        is_plain = kind is yaml.ScalarNode and implicit[0]
        is_text = tag in _TEXT_TAGS or (tag in _NUMBER_TAGS and ":" in value)
        return _TEXT if is_plain and is_text else tag


_ManifestLoader.add_constructor("tag:yaml.org,2002:int", construct_int)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar(_TEXT, value, style=style)


_Dumper.add_representer(str, _text)


_FAULTS = (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError)
"""SafeLoader's constructors fail in many ways where a tag does not fit its value."""
OnNote = Callable[[str], None]
"""Takes a note on a pod for the user."""


def _ignore(_: str) -> None:
    pass


def inject(
    text: str,
    sidecar: Sidecar,
    containers: tuple[str, ...] = (),
    where: str = "-",
    on_note: OnNote = _ignore,
) -> str:
    """Return the manifests with the sidecar in every pod; comments are lost.

    Args:
        text: YAML documents, or JSON.
        sidecar: The sidecar to add.
        containers: Writers of the logs; by default the one with a volume there, or the only one.
        where: The text's name in errors.
        on_note: Takes a note on each pod without a volume at the folder of the logs.

    Raises:
        ConfigError: no manifest, no pod, or a pod that cannot share the logs.

    """
    documents = [document for document in _documents(text, where) if document is not None]
    count = 0
    for number, document in enumerate(documents, 1):
        place = where if len(documents) == 1 else f"{where}: document {number}"
        for kind, pod in _pods(document, place):
            _add(pod, sidecar, containers, f"{place}: {kind}", on_note)
            count += 1
    if not count:
        found = ", ".join(sorted({str(document.get("kind")) for document in documents})) or "none"
        raise ConfigError(f"{where}: found {found}, wanted one of: {', '.join(_POD_AT)}, List")
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)


def _documents(text: str, where: str) -> list[Any]:
    try:
        return list(yaml.load_all(text, _ManifestLoader))
    except _FAULTS as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ConfigError(f"{where}: {place}{problem or 'no YAML'}") from error


def _pods(document: object, where: str) -> Iterator[tuple[str, Mapping]]:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise ConfigError(f"{where}: wanted a manifest, with 'apiVersion' and 'kind'")
    kind = document["kind"]
    if kind.endswith("List"):
        for i, item in enumerate(_items(document, "items", f"{where}: {kind}")):
            yield from _pods(item, f"{where}: items[{i}]")
    elif kind in _POD_AT:
        yield kind, _below(document, _POD_AT[kind], f"{where}: {kind}")


def _below(document: Mapping, path: tuple[str, ...], where: str) -> Mapping:
    found: Any = document
    for i, key in enumerate(path, 1):
        found = found.get(key)
        if not isinstance(found, dict):
            raise ConfigError(f"{where}: {'.'.join(path[:i])}: wanted a mapping")
    return cast("Mapping", found)


def _items(parent: Mapping, key: str, where: str) -> list[Any]:
    found = parent.setdefault(key, [])
    if found is None:
        found = parent[key] = []
    if not isinstance(found, list):
        raise ConfigError(f"{where}: {key}: found {type(found).__name__}, wanted a list")
    return found


def _mappings(parent: Mapping, key: str, where: str) -> list[Mapping]:
    items = _items(parent, key, where)
    for i, item in enumerate(items):
        if not isinstance(item, dict):
            raise ConfigError(f"{where}: {key}[{i}]: wanted a mapping")
    return items


def _section(parent: Mapping, key: str, where: str) -> Mapping:
    found = parent.get(key)
    if found is None:
        found = parent[key] = {}
    if not isinstance(found, dict):
        raise ConfigError(f"{where}: {key}: found {type(found).__name__}, wanted a mapping")
    return found


def _add(
    pod: Mapping, sidecar: Sidecar, containers: tuple[str, ...], where: str, on_note: OnNote
) -> None:
    spec, metadata = _section(pod, "spec", where), _section(pod, "metadata", where)
    _remove(spec, where)
    apps = _mappings(spec, "containers", where)
    if not apps:
        raise ConfigError(f"{where}: containers: found none, wanted the application's")
    image = str(_observed(apps, containers).get("image") or "")
    container, volumes = sidecar.container(image), _items(spec, "volumes", where)
    volumes += sidecar.volumes()
    for number, folder in enumerate(sidecar.folders, 1):
        mount = _find_mount(apps, folder, containers, where)
        if mount is None:
            mount = {"name": f"{NAME}-logs-{number}", "mountPath": str(folder.path)}
            volumes.append({"name": mount["name"], "emptyDir": {}})
            for app in _writers(apps, containers, f"{where}: {folder.path}"):
                _items(app, "volumeMounts", where).append(dict(mount))
                on_note(
                    f"{where}: container {app.get('name', '')} has no volume at {folder.path}, so "
                    "an empty one is added; where the application logs to stdout, the sidecar has "
                    f"nothing to read: let it write files to {folder.path} too, or read its stdout "
                    "from the node's /var/log/pods: the chart with values/stdout.yaml does"
                )
        add = {"readOnly": True} if folder.is_read_only else {}
        container["volumeMounts"].append(mount | add)
    _items(spec, "initContainers" if sidecar.is_native else "containers", where).append(container)
    _section(metadata, "labels", where)[LABEL] = "true"
    _section(metadata, "annotations", where)[ANNOTATION] = sidecar.config_text


def _observed(apps: list[Mapping], containers: tuple[str, ...]) -> Mapping:
    """Return the container that is observed: the first named one, else the pod's first."""
    return next((app for app in apps if app.get("name") in containers), apps[0])


def _find_mount(
    apps: list[Mapping], folder: Folder, containers: tuple[str, ...], where: str
) -> Mapping | None:
    """Return an application's mount of the volume that already contains the folder."""
    found = [
        mount
        for app in apps
        if not containers or app.get("name") in containers
        for mount in _mappings(app, "volumeMounts", where)
        if folder.path.is_relative_to(PurePosixPath(str(mount.get("mountPath", "?"))))
    ]
    if not found:
        return None
    best = max(found, key=lambda mount: len(str(mount["mountPath"])))
    kept = ("name", "mountPath", "subPath", "subPathExpr")
    return {key: value for key, value in best.items() if key in kept}


def _writers(apps: list[Mapping], containers: tuple[str, ...], where: str) -> list[Mapping]:
    names = [str(app.get("name")) for app in apps]
    missing = [name for name in containers if name not in names]
    if missing or (len(apps) > 1 and not containers):
        wanted = f"no container {missing[0]!r}" if missing else "wanted --container NAME"
        raise ConfigError(f"{where}: found the containers {', '.join(names)}; {wanted}")
    return [app for app in apps if not containers or app.get("name") in containers]


def _remove(spec: Mapping, where: str) -> None:
    """Remove the additions of an earlier run."""
    for key in ("containers", "initContainers", "volumes"):
        if key not in spec:
            continue
        items = _mappings(spec, key, where)
        items[:] = [item for item in items if not _is_ours(item)]
        if not items:
            del spec[key]
    for app in _mappings(spec, "containers", where):
        mounts = _mappings(app, "volumeMounts", where)
        mounts[:] = [mount for mount in mounts if not _is_ours(mount)]
        if not mounts:
            del app["volumeMounts"]


def _is_ours(item: Mapping) -> bool:
    name = item.get("name")
    return name == NAME or str(name).startswith(f"{NAME}-")
