"""The policy that puts sidecars beside labelled pods gives what `inject` gives."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.kubernetes.manifests import inject
from agent.kubernetes.sidecar import ANNOTATION, LABEL, NAME, read_sidecar
from tests.deploy.kubernetes import ROOT, admission, render, run

pytestmark = pytest.mark.timeout(1800)  # Go may have to build the tools first

CHART = ROOT / "deploy" / "helm" / NAME
SOURCES = 'sources: [{type: logs, paths: ["/var/log/app/*.log"]}]\n'
LEAST = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "payments", "labels": {f"{NAME}/inject": "true"}},
    "spec": {"containers": [{"name": "app", "image": "payments", "resources": {}}]},
}
FULL = LEAST | {
    "metadata": LEAST["metadata"] | {"annotations": {"a": "b", ANNOTATION: "sources: []"}},  # type: ignore[operator]
    "spec": {
        "initContainers": [{"name": "first", "image": "first", "resources": {}}],
        "containers": [
            {
                "name": "app",
                "image": "payments",
                "resources": {},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            },
            {"name": "other", "image": "other", "resources": {}},
        ],
        "volumes": [{"name": "data", "emptyDir": {}}],
    },
}


def policy() -> dict[str, Any]:
    manifests = render(CHART, "--set", "injection.enabled=true")
    (found,) = [m for m in manifests if m["kind"] == "MutatingAdmissionPolicy"]
    return found


def injected(pod: dict[str, Any], folder: Path) -> dict[str, Any]:
    config = folder / "agent.yaml"
    config.write_text(SOURCES)
    text = inject(yaml.safe_dump(pod), read_sidecar(config, {}), ("app",))
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def by_name(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {item["name"]: item for item in items}


def test_the_policy_adds_the_container_and_volumes_of_inject(tmp_path: Path) -> None:
    (mutation,) = policy()["spec"]["mutations"]
    expression = mutation["jsonPatch"]["expression"]
    added = re.findall(r'path: "(/spec/[^"]*/-)", value: (\{.*?\})\}\]', expression)
    image = "object.spec.containers[0].image"
    assert expression.count(image) == 1
    plain = [(path, value.replace(image, '"payments"')) for path, value in added]
    values = [(path, json.loads(re.sub(r"dyn\(|\)", "", value))) for path, value in plain]

    spec = injected(LEAST, tmp_path)["spec"]
    assert [value for path, value in values if "initC" in path] == spec["initContainers"]
    assert [value for path, value in values if "/volumes/" in path] == spec["volumes"]
    mounts = spec["containers"][0]["volumeMounts"]
    assert [value for path, value in values if "volumeMounts" in path] == mounts


@pytest.mark.skipif("ADMISSION" not in os.environ, reason="long: make admission")
@pytest.mark.parametrize("pod", [LEAST, FULL], ids=["least", "full"])
def test_an_api_server_makes_of_a_pod_what_inject_makes(
    pod: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump(policy()))

    admitted = json.loads(run(admission(), path, text=yaml.safe_dump(pod)))

    wanted = injected(pod, tmp_path)
    for key in ("containers", "initContainers", "volumes"):
        assert by_name(admitted["spec"][key]) == by_name(wanted["spec"][key])
    assert admitted["metadata"]["labels"][LABEL] == "true"
    text = pod["metadata"].get("annotations", {}).get(ANNOTATION, SOURCES)
    assert yaml.safe_load(admitted["metadata"]["annotations"][ANNOTATION]) == yaml.safe_load(text)
