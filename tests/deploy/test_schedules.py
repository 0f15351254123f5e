"""The schedules of deploy/spark call commands with options that exist, and keep a history."""

import re
import runpy
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import pytest
import yaml

from agent.cli import main
from tests.deploy.kubernetes import conform

FOLDER = Path("deploy/spark")


class Task:
    """A replacement for Airflow's operators and DAG: it keeps its arguments."""

    made: list["Task"]

    def __init__(self, **given: Any) -> None:
        self.given = given
        Task.made.append(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __rshift__(self, after: "Task") -> "Task":
        self.given["before"] = after.given["task_id"]
        return after


def commands_of_airflow(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    Task.made = []
    for name, attribute in (
        ("airflow", ""),
        ("airflow.sdk", "DAG"),
        ("airflow.providers.standard.operators.bash", "BashOperator"),
    ):
        module = ModuleType(name)
        setattr(module, attribute or "_", Task)
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("airflow.providers", "airflow.providers.standard"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(
        sys.modules, "airflow.providers.standard.operators", ModuleType("operators")
    )
    runpy.run_path(str(FOLDER / "airflow_dag.py"))
    dag, ingest, report = Task.made
    assert dag.given["max_active_runs"] == 1
    assert ingest.given["before"] == report.given["task_id"]
    return [shlex.split(task.given["bash_command"])[1:] for task in (ingest, report)]


def commands_of_cronjob() -> list[list[str]]:
    job = yaml.safe_load((FOLDER / "cronjob.yaml").read_text())
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return [each["args"] for each in (*pod["initContainers"], *pod["containers"])]


def test_cronjob_has_keys_that_kubernetes_knows_and_volumes_that_are_there() -> None:
    job = yaml.safe_load((FOLDER / "cronjob.yaml").read_text())
    conform([job])
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in (*pod["initContainers"], *pod["containers"]):
        mounted = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
        paths = re.findall(r"--(?:from|tables|output|slo)=(\S+)", " ".join(container["args"]))
        assert set(mounted.values()) <= volumes
        assert all(any(path.startswith(mount) for mount in mounted) for path in paths)


@pytest.mark.parametrize("engine", ["airflow", "cronjob"])
def test_commands_have_these_options_and_reports_stay(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = commands_of_airflow(monkeypatch) if engine == "airflow" else commands_of_cronjob()
    ingest, report = found
    for name, *arguments in found:
        command = main.get_command(main.make_context("agent", [name]), name)
        assert command is not None
        parsed = command.make_context(name, list(arguments), resilient_parsing=True)
        assert parsed.params["tables"] is not None
    assert "--once" in ingest
    assert "--dated" in report
