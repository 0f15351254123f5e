"""What can be said of images and the compose file without an engine: their own linters, the schema,
and that what they mount and start is there."""

import json
import os
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from agent.cli import main
from agent.wiring.agent_config import load

ROOT = Path(__file__).parent.parent.parent
DOCKER, COMPOSE = ROOT / "deploy" / "docker", ROOT / "deploy" / "compose"
DOCKERFILES = (
    Path("deploy/docker/agent.Dockerfile"),
    Path("deploy/docker/spark.Dockerfile"),
    Path("deploy/spark/Dockerfile"),
)


def tool(name: str) -> Path:
    """Return a program that pip brought beside this Python."""
    return Path(sys.executable).with_name(name)


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
    return document


def instructions(dockerfile: Path) -> list[str]:
    text = dockerfile.read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=str)
def test_hadolint_finds_nothing(dockerfile: Path) -> None:
    done = subprocess.run(
        [tool("hadolint"), ROOT / dockerfile],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("name", ["agent", "spark"])
def test_an_image_has_two_stages_and_no_root(name: str) -> None:
    lines = instructions(DOCKER / f"{name}.Dockerfile")

    assert len([line for line in lines if line.startswith("FROM ")]) == 2
    assert [line for line in lines if line.startswith("USER ")] == ["USER 12472:12472"]


def context_of(dockerfile: Path) -> set[str]:
    """Return the files that an image may copy: its own ignore file replaces the common one."""
    own = ROOT / f"{dockerfile}.dockerignore"
    lines = (own if own.exists() else ROOT / ".dockerignore").read_text().splitlines()
    return {line[1:] for line in lines if line.startswith("!")}


def sources_of(dockerfile: Path) -> set[str]:
    copies = [line.split()[1:-1] for line in instructions(ROOT / dockerfile) if line[:5] == "COPY "]
    return {word for words in copies if "--from" not in words[0] for word in words}


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=str)
def test_what_an_image_copies_is_in_its_context(dockerfile: Path) -> None:
    context = context_of(dockerfile)

    for source in sources_of(dockerfile):
        assert source in context or any(fnmatch(source, pattern) for pattern in context), source
        assert source.startswith("dist/") or (ROOT / source).exists()


def test_the_context_holds_what_images_copy_and_nothing_else() -> None:
    copied = sources_of(DOCKERFILES[0]) | sources_of(DOCKERFILES[1])

    assert context_of(DOCKERFILES[0]) == copied


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=str)
def test_an_image_installs_what_is_locked_with_hashes(dockerfile: Path) -> None:
    runs = [line for line in instructions(ROOT / dockerfile) if line.startswith("RUN ")]
    steps = [step for line in runs for step in line.removeprefix("RUN ").split("&&")]
    installs = [step.split() for step in steps if {"install", "wheel"} & set(step.split())]
    pips = [words for words in installs if words[0].endswith("pip")]

    assert pips
    for words in pips:
        locked = words[-1].endswith(".lock") and "--require-hashes" in words
        isolated = "wheel" not in words or "--no-build-isolation" in words
        assert isolated
        assert locked or "--no-deps" in words


def test_the_compose_file_keeps_to_its_specification() -> None:
    done = subprocess.run(
        [
            tool("check-jsonschema"),
            "--builtin-schema",
            "vendor.compose-spec",
            COMPOSE / "compose.yaml",
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_what_compose_mounts_and_builds_is_there(compose: dict[str, Any]) -> None:
    services = compose["services"].values()
    mounts = [mount for service in services for mount in service.get("volumes", [])]
    sources = [mount.split(":")[0] for mount in mounts]
    builds = [service["build"] for service in services if "build" in service]

    assert [path for path in sources if path[0] == "." and not (COMPOSE / path).exists()] == []
    assert {path for path in sources if path[0] != "."} == set(compose["volumes"])
    assert [
        build
        for build in builds
        if not (COMPOSE / build["context"] / build["dockerfile"]).is_file()
    ] == []


@pytest.mark.parametrize("name", ["agent", "ingest", "report"])
def test_our_containers_have_no_rights(compose: dict[str, Any], name: str) -> None:
    service = compose["services"][name]

    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("name", ["ingest", "report"])
def test_what_sparks_containers_start_is_a_command(compose: dict[str, Any], name: str) -> None:
    command, *arguments = compose["services"][name]["command"]
    program = click.Context(main)
    found = main.get_command(program, command)

    assert found is not None
    assert found.make_context(command, arguments, parent=program).params["tables"] is not None


def test_the_agent_of_the_compose_file_is_configured() -> None:
    config = load(COMPOSE / "agent.yaml", environ={})

    assert [source.name for source in config.sources] == ["proxy::19092", "groups"]


def test_prometheus_of_the_compose_file_is_configured(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        assert os.environ.get("CI") != "true", "promtool (Debian's package prometheus) is missing"
        pytest.skip("promtool is missing (Debian: apt-get install prometheus)")
    shutil.copy(COMPOSE / "prometheus.yml", tmp_path)
    shutil.copy(ROOT / "dashboards" / "prometheus" / "rules.yaml", tmp_path)

    done = subprocess.run(
        [promtool, "check", "config", tmp_path / "prometheus.yml"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_grafana_of_the_compose_file_finds_its_dashboards(compose: dict[str, Any]) -> None:
    provider = yaml.safe_load((COMPOSE / "grafana" / "dashboards.yaml").read_text())["providers"][0]
    grafana = compose["services"]["grafana"]
    home = Path(grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    shown = ROOT / "dashboards" / "grafana" / home.name

    assert str(home.parent) == provider["options"]["path"]
    assert f"../../dashboards/grafana:{home.parent}:ro" in grafana["volumes"]
    assert json.loads(shown.read_text())["title"]


@pytest.mark.parametrize("name", ["ingest", "report"])
def test_what_sparks_containers_write_is_mounted_for_it(compose: dict[str, Any], name: str) -> None:
    service = compose["services"][name]
    writable = {
        target
        for _, target, *mode in (mount.split(":") for mount in service["volumes"])
        if "ro" not in mode
    }
    # `report` keeps its rollups beside the tables
    written = {
        value
        for option, _, value in (text.partition("=") for text in service["command"])
        if option in {"--tables", "--output"}
    }

    assert written <= writable
