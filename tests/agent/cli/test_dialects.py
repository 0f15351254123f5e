import json
from importlib import resources

import yaml
from click.testing import CliRunner

from agent.cli.dialects import dialects
from agent.sources.lines.dialects.dialect_loader import load_client_dialects
from agent.sources.registry import REGISTRY
from metrics.model.status import BY_LABEL, RebalanceStatus

_FILES = [
    yaml.load(file.read_text("utf-8"), yaml.CSafeLoader)
    for folder in ("logs", "broker_logs")
    for file in (resources.files("agent.sources") / folder / "dialects").iterdir()
    if file.name.endswith(".yaml")
]
_BY_CLIENTS_WORDS = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
"""What a broker can tell where it prints the client's own reason (KIP-800)."""


def _code(rule: dict[str, str]) -> int | None:
    for key in ("raise", "follow_up", "streams", "announce"):
        if key in rule:
            return int(BY_LABEL[rule[key]])
    return 6 if rule["does"] == "leave" else None


def _written(file: dict[str, object]) -> set[int]:
    """The rules of a file and of the files that it names, read from the YAML alone."""
    beside = file.get("beside", [])
    assert isinstance(beside, list)
    found = {
        _code(rule)
        for other in _FILES
        for rule in other["rules"]
        if other is file
        or other["dialect"] in beside
        or f"{other['dialect']}/{rule['rule']}" in beside
    }
    words = _BY_CLIENTS_WORDS if "(?P<client_reason>" in str(file["rules"]) else set()
    return words | {code for code in found if code is not None}


def _got() -> dict[str, set[int]]:
    others = {row.name: {int(code) for code in row.codes} for row, _ in REGISTRY.coverage()}
    return {file["dialect"]: _written(file) for file in _FILES} | others


def _printed(*arguments: str) -> str:
    result = CliRunner().invoke(dialects, arguments)
    assert result.exit_code == 0
    return result.stdout


def test_the_table_marks_what_the_rules_say() -> None:
    head, *rows = _printed().split("\n\n")[0].splitlines()

    marked = {
        name: {int(code) for code, mark in zip(head.split()[1:], marks, strict=True) if mark == "x"}
        for name, *marks in map(str.split, rows)
    }

    assert marked == _got()


def test_the_json_says_the_same_as_the_table() -> None:
    rows = json.loads(_printed("--format", "json"))

    assert {row["dialect"]: set(row["codes"]) for row in rows} == _got()
    assert {type_ for row in rows for type_ in row["types"]} == set(REGISTRY.by_name)


def test_the_table_explains_each_code() -> None:
    legend = _printed().split("\n\n")[1].splitlines()

    assert [line.split()[1].rstrip(":") for line in legend] == [
        code.label for code in RebalanceStatus if code
    ]


def test_what_a_dialect_names_beside_it_exists() -> None:
    known = load_client_dialects()
    names = {dialect.name for dialect in known}
    names |= {f"{dialect.name}/{rule.name}" for dialect in known for rule in dialect.rules}

    assert {name for dialect in known for name in dialect.beside} <= names


def test_every_dialect_names_its_versions_and_its_source() -> None:
    for dialect in load_client_dialects():
        assert dialect.versions, dialect.name
        assert dialect.source.startswith("https://github.com/"), dialect.name
        assert all(rule.cites for rule in dialect.rules), dialect.name


def test_the_table_says_what_its_marks_mean() -> None:
    assert [line[:2] for line in _printed().split("\n\n")[2].splitlines()] == ["x:", ".:"]


def test_the_table_says_what_no_brokers_log_can_name() -> None:
    brokers = {
        row["dialect"]: set(row["codes"])
        for row in json.loads(_printed("--format", "json"))
        if row["dialect"].startswith("kafka-broker-")
    }
    note = _printed().split("\n\n")[3]

    assert len(brokers) == 4
    assert set().union(*brokers.values()).isdisjoint({12, 13})
    assert note.startswith("kafka-broker-...")
    assert "(10, 12, 13) is a join of a known member without a code" in note
