"""The component, by kustomize itself: labelled pods get the same sidecar as by `inject`."""

from pathlib import Path

import pytest
import yaml

from agent.kubernetes.sidecar import ANNOTATION, LABEL, NAME, read_sidecar
from agent.wiring.agent_config import load
from tests.deploy.go_tools import tool
from tests.deploy.kubernetes import ROOT, conform, run

pytestmark = pytest.mark.timeout(1800)  # Go may have to build the tools first

KUSTOMIZE = ROOT / "deploy" / "kustomize"


def test_the_example_conforms_and_has_the_sidecar_of_inject(tmp_path: Path) -> None:
    text = run(tool("kustomize"), "build", KUSTOMIZE / "example")
    (deployment,) = yaml.safe_load_all(text)

    conform([deployment])
    template = deployment["spec"]["template"]
    config = tmp_path / "agent.yaml"
    config.write_text(template["metadata"]["annotations"][ANNOTATION])
    image = f"registry.example/{NAME}:0.1.0"
    wanted = read_sidecar(config, {}, image=image)
    (container,) = template["spec"]["initContainers"]
    logs = {"name": "logs", "mountPath": "/var/log/app", "readOnly": True}
    assert container.pop("volumeMounts") == [*wanted.container()["volumeMounts"], logs]
    assert container == {k: v for k, v in wanted.container().items() if k != "volumeMounts"}
    assert [v for v in template["spec"]["volumes"] if v["name"] != "logs"] == wanted.volumes()
    assert template["metadata"]["labels"][LABEL] == "true"
    assert load(config).sources


def test_a_stateful_set_gets_it_and_what_is_not_labelled_does_not(tmp_path: Path) -> None:
    deployment = (KUSTOMIZE / "example" / "deployment.yaml").read_text()
    labelled = deployment.replace("kind: Deployment", "kind: StatefulSet")
    other = deployment.replace("name: payments\n", "name: other\n").replace('"true"', '"false"')
    (tmp_path / "stateful.yaml").write_text(labelled)
    (tmp_path / "other.yaml").write_text(other)
    component = Path("/".join([".."] * (len(tmp_path.parts) - 1))) / str(KUSTOMIZE)[1:] / "sidecar"
    kustomization = {"resources": ["stateful.yaml", "other.yaml"], "components": [str(component)]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))

    text = run(tool("kustomize"), "build", tmp_path)

    found = {
        manifest["kind"]: [
            c["name"] for c in manifest["spec"]["template"]["spec"].get("initContainers", [])
        ]
        for manifest in yaml.safe_load_all(text)
    }
    assert found == {"StatefulSet": [NAME], "Deployment": []}
