"""The charts, by Helm and kubeconform: sets of values, one a way to install, and the library."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.kubernetes.manifests import inject
from agent.kubernetes.sidecar import ANNOTATION, LABEL, NAME, read_sidecar
from agent.wiring.agent_config import AgentConfig, load
from tests.deploy.go_tools import tool
from tests.deploy.kubernetes import ROOT, conform, render, run

pytestmark = pytest.mark.timeout(1800)  # Go may have to build the tools first

HELM = ROOT / "deploy" / "helm"
CHART, EXAMPLE = HELM / NAME, HELM / "example"
WAYS = sorted((CHART / "values").glob("*.yaml"))
VALUES = [*sorted((CHART / "ci").glob("*-values.yaml")), *WAYS]
VARIABLES = {"NODE_NAME": "node-1"}
"""What manifests set for the configurations that are in them."""

Manifest = dict[str, Any]


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def by_name(items: list[Manifest]) -> Manifest:
    return {item["name"]: item for item in items}


def agents(manifests: list[Manifest], folder: Path) -> list[AgentConfig]:
    """Return the agents' configurations in ConfigMaps, read by the agent itself."""
    texts = [m["data"].get("agent.yaml") for m in of_kind(manifests, "ConfigMap")]
    configs = []
    for text in filter(None, texts):
        path = folder / "agent.yaml"
        path.write_text(text)
        configs.append(load(path, environ=VARIABLES))
    return configs


def test_there_are_five_sets_of_values_and_one_a_way_to_install() -> None:
    assert len(VALUES) == 5 + len(WAYS)
    assert [path.stem for path in WAYS] == ["broker-logs", "capture", "sidecar", "stdout"]


def test_an_image_has_its_digest_wherever_it_runs() -> None:
    digest = "sha256:" + 64 * "a"

    manifests = render(
        CHART, "--set", f"image.digest={digest},nodeLogs.enabled=true,injection.enabled=true"
    )

    kinds = [*of_kind(manifests, "Deployment"), *of_kind(manifests, "DaemonSet")]
    images = [
        container["image"]
        for manifest in kinds
        for container in manifest["spec"]["template"]["spec"]["containers"]
    ]
    (policy,) = of_kind(manifests, "MutatingAdmissionPolicy")
    (mutation,) = policy["spec"]["mutations"]
    assert len(images) == 2
    assert {image.partition("@")[2] for image in images} == {digest}
    assert f"@{digest}" in mutation["jsonPatch"]["expression"]
    with pytest.raises(AssertionError, match="values don't meet the specifications"):
        render(CHART, "--set", "image.digest=latest")


def test_stdout_needs_agents_on_nodes_and_capture_the_right_to_it() -> None:
    stdout = render(CHART, "--values", CHART / "values" / "stdout.yaml")
    capture = render(CHART, "--values", CHART / "values" / "capture.yaml")

    (nodes,) = of_kind(stdout, "DaemonSet")
    (policy,) = of_kind(capture, "MutatingAdmissionPolicy")
    expression = policy["spec"]["mutations"][0]["jsonPatch"]["expression"]
    assert nodes["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][-1]["readOnly"]
    assert "NET_RAW" in expression
    assert of_kind(capture, "DaemonSet") == []


def test_the_configurations_of_the_ways_are_read_by_the_agent(tmp_path: Path) -> None:
    for path in WAYS:
        config = yaml.safe_load(path.read_text()).get("injection", {}).get("config")
        if config is not None:
            file = tmp_path / "agent.yaml"
            file.write_text(yaml.safe_dump(config))
            assert load(file, environ=VARIABLES).sources


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_a_set_of_values_gives_manifests_that_conform(values: Path, tmp_path: Path) -> None:
    run(tool("helm"), "lint", "--strict", CHART, "--values", values)
    manifests = render(CHART, "--values", values)

    conform(manifests)
    assert manifests
    enabled = yaml.safe_load(values.read_text())
    count = sum(enabled.get(part, {}).get("enabled", True) for part in ("hub", "nodeLogs"))
    assert len(agents(manifests, tmp_path)) == count


def test_the_package_renders_what_the_folder_does(tmp_path: Path) -> None:
    everything = CHART / "ci" / "everything-values.yaml"
    run(tool("helm"), "package", "--destination", tmp_path, CHART)
    (package,) = tmp_path.glob("*.tgz")

    assert render(package, "--values", everything) == render(CHART, "--values", everything)


def test_the_default_reads_the_nodes_logs_and_pushes_to_a_hub(tmp_path: Path) -> None:
    manifests = render(CHART)

    conform(manifests)
    (nodes,) = of_kind(manifests, "DaemonSet")
    (hub,) = of_kind(manifests, "Deployment")
    configs = agents(manifests, tmp_path)
    assert sorted(config.role for config in configs) == ["hub", "sidecar"]
    assert nodes["spec"]["template"]["spec"]["volumes"]
    assert hub["spec"]["replicas"] == 1


def test_a_hub_alone_is_reached_by_agents_and_prometheus_only(tmp_path: Path) -> None:
    manifests = render(CHART, "--set", "nodeLogs.enabled=false")

    conform(manifests)
    (config,) = agents(manifests, tmp_path)
    (policy,) = of_kind(manifests, "NetworkPolicy")
    (rule,) = policy["spec"]["ingress"]
    assert config.role == "hub"
    assert {"matchLabels": {LABEL: "true"}} in [peer.get("podSelector") for peer in rule["from"]]
    assert of_kind(manifests, "DaemonSet") == []


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_every_container_of_ours_has_no_rights_and_all_its_volumes(values: Path) -> None:
    manifests = render(CHART, "--values", values)

    kinds = [*of_kind(manifests, "Deployment"), *of_kind(manifests, "DaemonSet")]
    for pod in (manifest["spec"]["template"]["spec"] for manifest in kinds):
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            rights = container["securityContext"]
            assert rights["capabilities"] == {"drop": ["ALL"]}
            assert rights["readOnlyRootFilesystem"]
            assert not rights["allowPrivilegeEscalation"]
            mounted = [mount["name"] for mount in container["volumeMounts"]]
            assert mounted == [volume["name"] for volume in pod["volumes"]]


@pytest.mark.parametrize(
    "wrong", ["hub.enabeld=true", "nodeLogs.paths={/home/x.log}", "image.tag=1"]
)
def test_wrong_values_are_refused_by_the_schema(wrong: str) -> None:
    with pytest.raises(AssertionError, match="values don't meet the specifications"):
        render(CHART, "--set", wrong)


def test_kubeconform_refuses_what_kubernetes_does_not_know() -> None:
    manifests = render(CHART)
    (deployment,) = of_kind(manifests, "Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["imge"] = "x"

    with pytest.raises(AssertionError, match="imge"):
        conform(manifests)


def test_the_schema_knows_every_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    known = {
        name: section.get("properties", {})
        for name, section in schema["properties"].items()
        if name not in {"global", "rebalance-agent-sidecar"}
    }
    assert {name: set(section) for name, section in known.items()} == {
        name: set(section) if isinstance(section, dict) else set()
        for name, section in values.items()
    }


def test_rules_and_dashboards_are_the_ones_of_this_repository() -> None:
    manifests = render(CHART, "--set", "rules.enabled=true,dashboards.enabled=true")

    (rules,) = of_kind(manifests, "PrometheusRule")
    written = (ROOT / "dashboards" / "prometheus" / "rules.yaml").read_text()
    assert rules["spec"] == yaml.safe_load(written)
    shown = [
        map_["data"] for map_ in of_kind(manifests, "ConfigMap") if "agent.yaml" not in map_["data"]
    ]
    assert {name: text for data in shown for name, text in data.items()} == {
        path.name: path.read_text().rstrip("\n")
        for path in (ROOT / "dashboards" / "grafana").glob("*.json")
    }


def test_runbooks_are_where_the_values_want_them() -> None:
    own = "https://wiki.example.org/kafka"

    manifests = render(CHART, "--set", f"rules.enabled=true,rules.runbookUrl={own}/")

    (rules,) = of_kind(manifests, "PrometheusRule")
    urls = {
        rule["alert"]: rule["annotations"]["runbook_url"]
        for group in rules["spec"]["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    assert urls == {alert: f"{own}/{alert}/" for alert in urls}
    assert "KafkaGroupIncident" in urls


def test_monitors_find_what_inject_labels() -> None:
    manifests = render(CHART, "--set", "monitors.enabled=true,nodeLogs.enabled=false")

    (monitor,) = of_kind(manifests, "PodMonitor")
    assert monitor["spec"]["selector"] == {"matchLabels": {LABEL: "true"}}
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == "rebalances"


@pytest.mark.parametrize(
    ("values", "scheme"),
    [
        ("", "http"),
        ("hub.webSecret=own", "https"),
        ("hub.webSecret=own,monitors.scheme=http", "http"),
    ],
)
def test_the_hub_is_scraped_as_agents_reach_it(values: str, scheme: str) -> None:
    (monitor,) = of_kind(
        render(CHART, "--set", f"monitors.enabled=true,{values}"), "ServiceMonitor"
    )

    assert monitor["spec"]["endpoints"][0]["scheme"] == scheme


def test_the_librarys_sidecar_is_the_one_that_inject_adds(tmp_path: Path) -> None:
    manifests = render(EXAMPLE)
    (deployment,) = manifests
    template = deployment["spec"]["template"]
    config = tmp_path / "agent.yaml"
    config.write_text(template["metadata"]["annotations"][ANNOTATION])

    again = inject(yaml.safe_dump(deployment), read_sidecar(config, {}, secrets=("hub-token",)))

    injected = yaml.safe_load(again)["spec"]["template"]
    conform(manifests)
    assert template["metadata"] == injected["metadata"]
    for key in ("containers", "initContainers", "volumes"):
        assert by_name(template["spec"][key]) == by_name(injected["spec"][key])


@pytest.mark.parametrize("set_", ["captures=true", "plain=true"])
def test_a_capture_and_a_plain_container_are_as_inject_adds_them(set_: str, tmp_path: Path) -> None:
    captures, plain = set_ == "captures=true", set_ == "plain=true"
    kind = "capture" if captures else "http"
    options = ["--set", f"rebalanceAgent.{set_}", "--set-json"]
    values = f'rebalanceAgent.config={{"sources":[{{"type":"{kind}"}}],"web":{{"listen":[":99"]}}}}'
    (deployment,) = render(EXAMPLE, *options, values, "--set", "rebalanceAgent.mounts=null")
    spec = deployment["spec"]["template"]["spec"]
    config = tmp_path / "agent.yaml"
    config.write_text(deployment["spec"]["template"]["metadata"]["annotations"][ANNOTATION])
    wanted = read_sidecar(config, {}, secrets=("hub-token",), is_native=not plain)

    assert spec["initContainers"] == [wanted.container("payments:1")]
