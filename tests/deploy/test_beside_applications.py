"""The wheel beside applications that have packages called as ours are."""

import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from kafka_rebalance_agent import PACKAGES
from tests.aggregation.spark.conftest import QUICK_JVM
from tests.aggregation.spark.histories import fleet, write_spool
from tests.deploy.installed import ROOT, make_environment, run

LEAST = 'sources: [{type: logs, paths: ["/var/log/app/*.log"]}]\n'
NOTEBOOK = "import runpy; print(runpy.run_path({example!r})['__doc__'])"

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("environment"), wheel)


@pytest.fixture(scope="module")
def editable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    programs = make_environment(tmp_path_factory.mktemp("editable"))
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed")
    pip = (sys.executable, "-m", "pip", "--python", programs / "python", "install", *options)
    run(*pip, "--editable", ROOT)
    return programs


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """Create an application with packages of the same names as the agent's."""
    folder = tmp_path / "application"
    for name in PACKAGES:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"THEIRS = {name!r}\n")
    return folder


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(LEAST)
    return path


@pytest.mark.parametrize("way", ["script", "module"])
def test_commands_work(programs: Path, application: Path, config: Path, way: str) -> None:
    ways: dict[str, list[str | Path]] = {
        "script": [programs / "rebalance-agent"],
        "module": [programs / "python", "-m", "kafka_rebalance_agent"],
    }

    def command(*words: str | Path) -> str:
        return run(*ways[way], *words, cwd=application, PYTHONPATH=str(application))

    assert command("--version").startswith("rebalance-agent, version ")
    assert "/var/log/app/*.log" in command("check-config", "-c", config)
    assert "java-consumer" in command("dialects")


def test_statements_for_analysts_and_steps_for_notebooks_come_with_the_wheel(
    programs: Path, application: Path
) -> None:
    def python(*words: str | Path) -> str:
        return run(programs / "python", *words, cwd=application, PYTHONPATH=str(application))

    ddl = python("-m", "kafka_rebalance_agent.table_ddl", "trino", "s3://bucket/tables")
    assert "'s3://bucket/tables/incidents'" in ddl
    assert "TABLES" in python("-c", NOTEBOOK.format(example=f"{ROOT}/docs/report_example.py"))


def test_an_editable_install_works(editable: Path, application: Path, config: Path) -> None:
    agent = editable / "rebalance-agent"

    printed = run(agent, "check-config", "-c", config, PYTHONPATH=str(application))

    assert "/var/log/app/*.log" in printed


def test_a_name_that_is_imported_before_ours_gives_way(
    programs: Path, application: Path, config: Path
) -> None:
    startup = "import agent, aggregation, metrics\n"
    (application / "sitecustomize.py").write_text(startup)

    printed = run(
        programs / "rebalance-agent", "check-config", "-c", config, PYTHONPATH=str(application)
    )

    assert "/var/log/app/*.log" in printed


def test_a_folder_that_is_no_package_yet_gives_way(
    programs: Path, application: Path, config: Path
) -> None:
    for path in application.glob("*/__init__.py"):
        path.unlink()
    (application / "sitecustomize.py").write_text("import metrics\n")

    printed = run(
        programs / "rebalance-agent", "check-config", "-c", config, PYTHONPATH=str(application)
    )

    assert "/var/log/app/*.log" in printed


def test_completion_works(programs: Path, application: Path) -> None:
    printed = run(
        programs / "rebalance-agent",
        PYTHONPATH=str(application),
        _REBALANCE_AGENT_COMPLETE="bash_complete",
        COMP_WORDS="rebalance-agent check-",
        COMP_CWORD="1",
    )

    assert printed == "plain,check-config\n"


def test_an_application_keeps_its_own(programs: Path, application: Path) -> None:
    theirs = "import agent, aggregation, metrics; print(metrics.THEIRS, agent.THEIRS)"

    printed = run(programs / "python", "-c", theirs, PYTHONPATH=str(application))

    assert printed == "metrics agent\n"


def test_a_demo_without_the_lab_leads_to_it(programs: Path, tmp_path: Path) -> None:
    options = ("--broker", "kafka", "--output", tmp_path / "out")
    command = (programs / "rebalance-agent", "demo", *options)

    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert "run 'make demo-kafka' there" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_environment_without_an_application_has_none_of_the_names(programs: Path) -> None:
    find = "import sys, importlib.util as u; print(*filter(u.find_spec, sys.argv[1:]))"

    assert run(programs / "python", "-c", find, *PACKAGES, "click") == "click\n"


def test_a_module_of_ours_runs_as_a_process(programs: Path, application: Path) -> None:
    child = ("-P", "-m", "kafka_rebalance_agent.child", "agent", "--version")

    printed = run(programs / "python", *child, PYTHONPATH=str(application))

    assert printed.startswith("rebalance-agent, version ")


@pytest.mark.field
@pytest.mark.spark
def test_sparks_workers_find_ours(programs: Path, application: Path, tmp_path: Path) -> None:
    spool, tables = tmp_path / "spool", tmp_path / "tables"
    samples = fleet(2, days=1, sampled_every_s=7200).samples
    write_spool(spool, samples)

    def command(*words: str | Path) -> str:
        return run(
            programs / "rebalance-agent",
            *words,
            cwd=application,
            PYTHONPATH=str(application),
            JAVA_TOOL_OPTIONS=QUICK_JVM,
        )

    command("ingest", "--from", spool, "--tables", tables, "--once")
    page = command("report", "--tables", tables, "--output", tmp_path / "report").splitlines()[-1]

    rows = [ds.dataset(tables / name, partitioning="hive") for name in ("transitions", "samples")]
    ids = [row for table in rows for row in table.to_table(["id"])["id"].to_pylist()]
    assert sorted(ids) == sorted(sample.id for sample in samples)
    assert "<svg" in Path(page).read_text()
