from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from agent.cli import main
from agent.kubernetes.sidecar import ANNOTATION, LABEL, LIMITS, NAME, REQUESTS

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: payments}
spec:
  containers:
    - {name: app, image: payments}
"""


def call(*args: str, manifest: str = POD) -> Result:
    return CliRunner().invoke(main, ["inject", "-f", "-", *args], input=manifest)


def injected(*args: str, manifest: str = POD) -> dict[str, Any]:
    done = call(*args, manifest=manifest)
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = yaml.safe_load(done.stdout)
    return document


def of(kind: str, pod: str, *path: str) -> str:
    """Return a manifest of a kind that keeps the pod at a path."""
    template = {key: value for key, value in yaml.safe_load(pod).items() if key == "spec"}
    for key in reversed(path):
        template = {key: template}
    return yaml.safe_dump({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}} | template)


def sidecar(spec: dict[str, Any]) -> dict[str, Any]:
    (found,) = [c for c in (*spec["containers"], *spec["initContainers"]) if c["name"] == NAME]
    container: dict[str, Any] = found
    return container


def mounts(container: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {mount["mountPath"]: mount for mount in container.get("volumeMounts", [])}


def test_a_pod_gets_a_sidecar_that_starts_first_and_ends_last() -> None:
    spec = injected()["spec"]

    assert [container["name"] for container in spec["initContainers"]] == [NAME]
    assert sidecar(spec)["restartPolicy"] == "Always"


def test_pod_without_a_volume_for_its_logs_is_warned_of() -> None:
    """Most such applications log to stdout: the sidecar cannot read that."""
    mounted = yaml.safe_load(POD)
    mounted["spec"]["containers"][0]["volumeMounts"] = [{"name": "l", "mountPath": "/var/log/app"}]
    mounted["spec"]["volumes"] = [{"name": "l", "emptyDir": {}}]

    assert "container app has no volume at /var/log/app" in call().stderr
    assert "stdout" in call().stderr
    assert call(manifest=yaml.safe_dump(mounted)).stderr == ""


def test_the_configuration_is_in_the_pod_itself() -> None:
    pod = injected("--logs", "/srv/log/*.log", "--logs", "/srv/log/*.out")

    config = yaml.safe_load(pod["metadata"]["annotations"][ANNOTATION])
    assert config == {"sources": [{"type": "logs", "paths": ["/srv/log/*.log", "/srv/log/*.out"]}]}
    assert pod["metadata"]["labels"] == {LABEL: "true"}


def test_a_sidecar_has_no_rights_and_the_measured_requests() -> None:
    container = sidecar(injected()["spec"])
    rights = container["securityContext"]

    assert rights["runAsNonRoot"]
    assert rights["readOnlyRootFilesystem"]
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"] == {"requests": REQUESTS, "limits": LIMITS}


def test_logs_that_are_in_no_volume_get_one() -> None:
    spec = injected()["spec"]

    name = mounts(spec["containers"][0])["/var/log/app"]["name"]
    seen = {"name": name, "mountPath": "/var/log/app", "readOnly": True}
    assert mounts(sidecar(spec))["/var/log/app"] == seen
    assert {"name": name, "emptyDir": {}} in spec["volumes"]


def test_logs_that_are_in_a_volume_are_read_there() -> None:
    mount = {"name": "data", "mountPath": "/var/log", "subPath": "log"}
    pod = yaml.safe_load(POD)
    pod["spec"]["containers"][0]["volumeMounts"] = [mount]
    pod["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]

    spec = injected(manifest=yaml.safe_dump(pod))["spec"]

    assert mounts(sidecar(spec))["/var/log"] == mount | {"readOnly": True}
    assert spec["containers"][0]["volumeMounts"] == [mount]


def test_of_several_containers_the_writer_is_named() -> None:
    two = POD + "    - {name: proxy, image: proxy}\n"

    refused = call(manifest=two)
    spec = injected("--container", "app", manifest=two)["spec"]

    said = "Error: <stdin>: Pod: /var/log/app: found the containers app, proxy; "
    assert (refused.exit_code, refused.stderr) == (2, said + "wanted --container NAME\n")
    assert ["/var/log/app" in mounts(c) for c in spec["containers"]] == [True, False]


def test_a_container_that_is_not_there_is_told() -> None:
    done = call("--container", "ap")

    assert done.exit_code == 2
    assert done.stderr.endswith("found the containers app; no container 'ap'\n")


@pytest.mark.parametrize("options", [[], ["--plain"], ["--secret", "hub"]])
def test_a_second_time_changes_nothing(options: list[str]) -> None:
    once = call(*options).stdout

    assert call(*options, manifest=once).stdout == once


def test_other_options_replace_what_was_there() -> None:
    plain = call("--plain", "--secret", "hub", "--logs", "/srv/*/x.log").stdout

    assert call(manifest=plain).stdout == call().stdout


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Deployment", ("spec", "template")),
        ("StatefulSet", ("spec", "template")),
        ("DaemonSet", ("spec", "template")),
        ("Job", ("spec", "template")),
        ("CronJob", ("spec", "jobTemplate", "spec", "template")),
    ],
)
def test_what_makes_pods_gets_it_in_their_template(kind: str, path: tuple[str, ...]) -> None:
    found = injected(manifest=of(kind, POD, *path))

    for key in path:
        found = found[key]
    assert sidecar(found["spec"])["name"] == NAME
    assert found["metadata"]["labels"] == {LABEL: "true"}


def test_documents_and_lists_are_gone_through_and_the_rest_passes() -> None:
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"
    inner = {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(POD)]}

    done = call(manifest=f"{service}---\n{yaml.safe_dump(inner)}---\n{POD}---\n")

    first, second, third = yaml.safe_load_all(done.stdout)
    assert first == yaml.safe_load(service)
    assert second["items"] == [third]
    assert sidecar(third["spec"])["name"] == NAME


def test_a_capture_is_root_with_one_capability(tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("sources: [{type: capture}]\nstate_dir: /state\nweb: {listen: [':9999']}")

    container = sidecar(injected("-c", str(config))["spec"])

    rights = container["securityContext"]
    assert rights["capabilities"] == {"drop": ["ALL"], "add": ["NET_RAW"]}
    assert (rights["runAsUser"], rights["runAsNonRoot"]) == (0, False)
    assert container["ports"][0]["containerPort"] == 9999
    assert set(mounts(container)) == {"/etc/kafka-rebalance-agent", "/state"}


def test_a_socket_is_made_by_the_agent_so_its_folder_is_writable(tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("sources: [{type: librdkafka_stats, path: /run/stats/agent.sock}]")

    container = sidecar(injected("-c", str(config))["spec"])

    assert "readOnly" not in mounts(container)["/run/stats"]


def test_variables_and_secrets_of_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text(
        "cluster: {name: '${CLUSTER}'}\n"
        "sources: [{type: http}]\n"
        "hub: {push_to: ['https://hub:12472'], token_file: /run/secrets/hub/token}\n"
    )

    spec = injected("-c", str(config), "--env", "CLUSTER=eu", "--secret", "hub")["spec"]

    container = sidecar(spec)
    assert {"name": "CLUSTER", "value": "eu"} in container["env"]
    assert mounts(container)["/run/secrets/hub"]["readOnly"]
    volume = {"name": f"{NAME}-secret-hub", "secret": {"secretName": "hub"}}
    assert volume in spec["volumes"]


def test_the_sidecar_knows_version_and_image_of_its_application() -> None:
    label = {"fieldPath": "metadata.labels['app.kubernetes.io/version']"}
    assert sidecar(injected()["spec"])["env"] == [
        {"name": "REBALANCE_AGENT_WORKLOAD_VERSION", "valueFrom": {"fieldRef": label}},
        {"name": "REBALANCE_AGENT_WORKLOAD_IMAGE", "value": "payments"},
    ]


def test_a_given_version_wins() -> None:
    spec = injected("--env", "REBALANCE_AGENT_WORKLOAD_VERSION=7")["spec"]
    version = {"name": "REBALANCE_AGENT_WORKLOAD_VERSION", "value": "7"}
    assert sidecar(spec)["env"][0] == version


def test_a_plain_container_is_for_older_clusters() -> None:
    spec = injected("--plain", "--image", "registry/agent:1")["spec"]

    assert [container["name"] for container in spec["containers"]] == ["app", NAME]
    assert "initContainers" not in spec
    assert "restartPolicy" not in spec["containers"][1]
    assert spec["containers"][1]["image"] == "registry/agent:1"


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ("", "<stdin>: found none, wanted one of: Pod, Deployment, "),
        ("kind: Service\n---\nkind: ConfigMap\n", "<stdin>: found ConfigMap, Service, wanted "),
        ("- a", "<stdin>: wanted a manifest, with 'apiVersion' and 'kind'"),
        ("kind: [", "<stdin>: line 1, column 8: "),
        ("kind: Deployment", "<stdin>: Deployment: spec: wanted a mapping"),
        (
            "kind: Pod\n---\nkind: Job\nspec: {}",
            "<stdin>: document 1: Pod: containers: found none, wanted the application's",
        ),
        (
            "kind: Pod\nspec: {containers: {}}",
            "<stdin>: Pod: containers: found dict, wanted a list",
        ),
        ("kind: Pod\nspec: {containers: [1]}", "<stdin>: Pod: containers[0]: wanted a mapping"),
        ("kind: Pod\nspec: []", "<stdin>: Pod: spec: found list, wanted a mapping"),
        *(
            (f"kind: Pod\na: {value}", "<stdin>: ")
            for value in ("!!timestamp x", "!!int ''", "!!float _", "!!bool x", "!new x")
        ),
        (f"kind: Pod\na: 0x{'f' * 9_000}", "<stdin>: line 2, column 4: a number of 9002 char"),
    ],
)
def test_what_is_no_manifest_is_told(manifest: str, said: str) -> None:
    done = call(manifest=manifest)

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: {said}")


@pytest.mark.parametrize("glob", ["app.log", "/*.log", "/*/app.log"])
def test_logs_that_no_volume_can_hold_are_told(glob: str) -> None:
    done = call("--logs", glob)

    assert done.exit_code == 2
    assert done.stderr.startswith(f"Error: --logs: sources[0]: found {glob!r}, wanted files in a")


def test_wrong_usage_is_told(tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("sources: [{type: http}]")

    both = call("-c", str(config), "--logs", "/var/log/app/*.log")
    variable = call("--env", "A")

    assert (both.exit_code, variable.exit_code) == (2, 2)
    assert "--logs and --config.file: give one of them" in both.stderr
    assert "found 'A', wanted NAME=VALUE" in variable.stderr


@pytest.mark.parametrize("text", ["8080:22", "2001-12-14 21:59:43.10", "2026-02-30", "=", "1:0.5"])
def test_text_that_only_python_takes_for_a_number_or_a_time_stays(text: str) -> None:
    """Kubernetes reads it as text; `8080:22` was written as 484822."""
    pod = POD.replace("image: payments", f"image: payments, args: [{text}]")

    assert injected(manifest=pod)["spec"]["containers"][0]["args"] == [text]


def test_a_file_without_end_is_refused() -> None:
    done = CliRunner().invoke(main, ["inject", "-f", "/dev/zero"])

    assert done.exit_code == 2
    assert done.stderr.startswith("Error: /dev/zero: is longer than 16 MiB")


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_bytes(b"kind: \xff")

    done = CliRunner().invoke(main, ["inject", "-f", str(path)])

    assert done.exit_code == 2
    assert done.stderr.startswith(f"Error: {path}: is not UTF-8: ")
