"""Kubernetes' own tools for the tests, and schemas.

Schemas of Kubernetes come with a package from PyPI, those of Prometheus Operator's objects are made
of its module's own definitions.
"""

import json
import re
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zlib import crc32

import yaml

from agent.lab.artifacts import appear_once, default_cache
from tests.deploy.go_tools import run_go, tool

ROOT = Path(__file__).parent.parent.parent
KUBERNETES = "1.37.0"
_OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
_OBJECTS = ("servicemonitors", "podmonitors", "prometheusrules")
_KINDS = (
    "configmap-v1",
    "cronjob-batch-v1",
    "daemonset-apps-v1",
    "deployment-apps-v1",
    "mutatingadmissionpolicy-admissionregistration-v1",
    "mutatingadmissionpolicybinding-admissionregistration-v1",
    "namespace-v1",
    "networkpolicy-networking-v1",
    "persistentvolumeclaim-v1",
    "pod-v1",
    "service-v1",
    "serviceaccount-v1",
    "statefulset-apps-v1",
)
_REFERENCE = "/api/_definitions.json#/$defs/"


def run(*command: str | Path, text: str | None = None, timeout_s: float = 120.0) -> str:
    """Return the output of a command; it must succeed."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"{command}:\n{done.stderr}\n{done.stdout}"
    return done.stdout


@cache
def admission() -> Path:
    """Return the program that admits a pod as an API server would; minutes to build, once."""
    source = Path(__file__).with_name("admission")
    state = crc32((source / "main.go").read_bytes() + (source / "go.sum").read_bytes())
    target = default_cache() / "go" / f"admission-{state}"
    with appear_once(target) as folder:
        if folder is not None:
            run_go("-C", str(source), "build", "-o", str(folder / "admission"), ".")
    return target / "admission"


def render(chart: Path, *options: str | Path) -> list[dict[str, Any]]:
    """Return the output of `helm template` for a chart."""
    command = (tool("helm"), "template", "test", chart, "--namespace", "observers")
    text = run(*command, "--kube-version", KUBERNETES, *options)
    return [document for document in yaml.safe_load_all(text) if document]


def conform(documents: list[dict[str, Any]]) -> None:
    """Check manifests by kubeconform: each has a schema, none an unknown key."""
    place = f"{_schemas()}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    command = (tool("kubeconform"), "-strict", "-kubernetes-version", KUBERNETES)
    run(*command, "-schema-location", place, text=yaml.safe_dump_all(documents))


@cache
def _schemas() -> Path:
    name = f"kubernetes-{KUBERNETES}-{_OPERATOR.rpartition('@')[2]}-{crc32(repr(_KINDS).encode())}"
    target = default_cache() / "schemas" / name
    with appear_once(target) as folder:
        if folder is not None:
            _write_kubernetes(folder)
            _write_operator(folder)
    return target


def _write_kubernetes(folder: Path) -> None:
    """Write each kind with the definitions that it needs, for kubeconform reads one file a kind."""
    spec = find_spec("kubernetes_validate")
    assert spec is not None
    assert spec.origin is not None
    version = f"v{KUBERNETES}-local-strict"
    source = Path(spec.origin).parent / "kubernetes-json-schema" / version
    definitions = json.loads((source / "_definitions.json").read_text())["$defs"]
    for kind in _KINDS:
        schema = (source / f"{kind}.json").read_text()
        needed: dict[str, Any] = {}
        names = _referred(schema)
        while names:
            name = names.pop()
            needed[name] = definitions[name]
            names |= _referred(json.dumps(definitions[name])) - needed.keys()
        whole = json.loads(schema) | {"$defs": needed}
        (folder / f"{kind}.json").write_text(json.dumps(whole).replace(_REFERENCE, "#/$defs/"))


def _referred(schema: str) -> set[str]:
    return set(re.findall(r'#/\$defs/([^"]+)', schema))


def _write_operator(folder: Path) -> None:
    module = Path(json.loads(run_go("mod", "download", "-json", _OPERATOR))["Dir"])
    for plural in _OBJECTS:
        path = module / "example/prometheus-operator-crd" / f"monitoring.coreos.com_{plural}.yaml"
        definition = yaml.safe_load(path.read_text())["spec"]
        schema = _closed(definition["versions"][0]["schema"]["openAPIV3Schema"])
        kind = definition["names"]["kind"].lower()
        (folder / f"{kind}-monitoring-v1.json").write_text(json.dumps(schema))


def _closed(schema: Any) -> Any:
    """Return a schema that refuses unknown keys: an API server would drop them silently."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict):
        closed["additionalProperties"] = False
    return closed
