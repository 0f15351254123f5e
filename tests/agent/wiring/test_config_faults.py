import socket
from pathlib import Path

import pytest

from agent.wiring.agent_config import Overrides
from agent.wiring.config_faults import MAX_FAULTS, check_file

_WRONG = """\
role: huub
sources: [{{type: logs, paths: []}}, {{type: nope}}, {{type: logs, paths: [/a], labels: 1}}]
web: {{listen: ["127.0.0.1:99999"], telemetry_path: metrics, config_file: {folder}/web.yaml}}
limits: {{memory: 1MiB, members: many}}
samples: {{spool: {{max_bytes: lots}}}}
timezone: Nowhere
unknown: 1
hub: {{push_to: ["https://user:pw@hub:1"], token_file: {folder}/token}}
"""
_OWN_FOLDER = "wanted a folder of its own, such as one in state_dir"
_TLS = "cluster: {{bootstrap_servers: ['k:1'], security: {{protocol: SSL, ca_file: {0}}}}}\n"


def faults(folder: Path, text: str, overrides: Overrides | None = None) -> list[str]:
    (folder / "agent.yaml").write_text(text)
    return [
        fault.replace(f"{folder}/", "")
        for fault in check_file(folder / "agent.yaml", overrides, environ={}).faults
    ]


def test_all_faults_are_found_at_once(tmp_path: Path) -> None:
    found = faults(tmp_path, _WRONG.format(folder=tmp_path))

    assert sorted(fault.rpartition("yaml: ")[2].partition(":")[0] for fault in found) == [
        "cannot be read",
        "hub.push_to[0]",
        "hub.token_file",
        "limits.members",
        "limits.memory",
        "role",
        "samples.spool.max_bytes",
        "sources[0].paths",
        "sources[1].type",
        "sources[2].labels",
        "timezone",
        "unknown",
        "web.listen[0]",
        "web.telemetry_path",
    ]
    assert "web.yaml: cannot be read: No such file or directory" in found


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("", ["sources"]),
        ("sources: 1\nweb: {listen: []}\n", ["sources", "web.listen"]),
        ("web: 1\n", ["sources", "web"]),
        ("sources: [1, {type: logs}]\n", ["sources[0]", "sources[1]"]),
        ("- 1\n", ["found list, wanted a mapping of sections"]),
        ("sources: [{type: logs, paths: [/a]}]\n", []),
    ],
)
def test_a_fault_hides_no_other(tmp_path: Path, text: str, keys: list[str]) -> None:
    found = [fault.removeprefix("agent.yaml: ") for fault in faults(tmp_path, text)]

    assert len(found) == len(keys)
    assert all(any(fault.startswith(key) for fault in found) for key in keys)


@pytest.mark.parametrize(
    "section",
    [
        "otlp: {{endpoint: 'http://127.0.0.1:1', headers_file: {0}}}",
        "otlp: {{endpoint: 'https://127.0.0.1:1', ca_file: {0}}}",
        "hub: {{push_to: ['https://hub:1'], token_file: {0}}}",
        "web: {{config_file: {0}}}",
        "hub: {{push_to: ['https://hub:1'], ca_file: {0}}}",
        "hub: {{push_to: ['https://hub:1'], certificate_file: {0}}}",
        "role: hub\nhub: {{token_file: {0}}}",
        _TLS + "samples: {{kafka: {{topic: t}}}}",
        _TLS + "role: hub\nhub: {{topic: t}}",
    ],
)
def test_a_file_that_run_cannot_read_is_a_fault(tmp_path: Path, section: str) -> None:
    text = "sources: [{type: logs, paths: [/a]}]\n" + section.format(tmp_path / "nowhere")

    (fault,) = faults(tmp_path, text)

    assert "nowhere" in fault
    assert "No such file" in fault


@pytest.mark.parametrize(
    ("section", "wanted"),
    [
        ("state_dir: {0}", ["state_dir", "samples.spool.dir"]),  # by default the spool is within
        ("state_dir: {0}/below", ["state_dir", "samples.spool.dir"]),
        ("samples: {{spool: {{dir: {0}/below}}}}", ["samples.spool.dir"]),
    ],
)
def test_a_file_for_a_folder_is_a_fault(tmp_path: Path, section: str, wanted: list[str]) -> None:
    (tmp_path / "file").touch()
    text = "sources: [{type: logs, paths: [/a]}]\n" + section.format(tmp_path / "file")

    found = faults(tmp_path, text)

    assert [fault.partition(" ")[0] for fault in found] == wanted
    assert all(fault.endswith("'file' is a file, wanted a folder") for fault in found)


def test_of_thousands_of_faults_the_first_are_named(tmp_path: Path) -> None:
    text = "sources:\n" + "- {type: logs}\n" * 3000
    assert faults(tmp_path, text) == [
        *(f"agent.yaml: sources[{i}].paths: is missing" for i in range(MAX_FAULTS)),
        "agent.yaml: there may be more faults; correct these first",
    ]


@pytest.mark.parametrize(
    "section", ["hub: {{token_file: {0}}}", "hub: {{ca_file: {0}, certificate_file: {0}}}"]
)
def test_a_file_that_run_does_not_read_is_no_fault(tmp_path: Path, section: str) -> None:
    text = "sources: [{type: logs, paths: [/a]}]\n" + section.format(tmp_path / "nowhere")
    assert faults(tmp_path, text) == []


def test_a_file_of_one_source_hides_none_of_another(tmp_path: Path) -> None:
    source = (
        "- {{type: proxy, listen: 'a:{0}', upstream: ['k:1'], tls: {{listen: {{cert_file: {1}}}}}}}"
    )
    places = tmp_path / "1.pem", tmp_path / "2.pem"
    rows = [source.format(number, place) for number, place in enumerate(places, 9000)]

    first, second = faults(tmp_path, "\n".join(["sources:", *rows]))

    assert "1.pem" in first
    assert "2.pem" in second


_SET = " (set by a flag or the environment)"


def test_settings_of_flags_and_environment_are_checked_with_the_rest(tmp_path: Path) -> None:
    wrong = Overrides(
        listen=("127.0.0.1:0", "nope"),
        telemetry_path="metrics",
        web_config_file=f"{tmp_path}/web.yaml",
        log_level="loud",
        log_format="xml",
    )

    found = faults(tmp_path, "sources: [{type: logs, paths: [/a]}]\nunknown: 1\n", wrong)

    assert sorted(fault for fault in found if ": unknown: " not in fault) == [
        "agent.yaml: log.format: unknown 'xml'; allowed: json, logfmt" + _SET,
        "agent.yaml: log.level: unknown 'loud'; allowed: debug, error, info, warning" + _SET,
        "agent.yaml: web.listen[1]: found 'nope', wanted host:port such as :12472" + _SET,
        "agent.yaml: web.telemetry_path: found 'metrics', wanted a path such as /metrics"
        " that is not below /- or /api" + _SET,
        "web.yaml: cannot be read: No such file or directory",
    ]
    assert len(found) == 6


def test_settings_of_flags_and_environment_replace_wrong_ones(tmp_path: Path) -> None:
    text = (
        "sources: [{type: logs, paths: [/a]}]\nlog: {level: loud, format: xml}\n"
        "web: {listen: [nope], telemetry_path: metrics}\n"
    )
    right = Overrides(
        listen=("127.0.0.1:0",), telemetry_path="/m", log_level="info", log_format="json"
    )

    assert len(faults(tmp_path, text)) == 4
    assert faults(tmp_path, text, right) == []


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("999.9.9.9:0", "cannot listen on '999.9.9.9:0': Name or service not known"),
        ("192.0.2.1:0", "cannot listen on '192.0.2.1:0': Cannot assign requested address"),
    ],
)
def test_an_address_that_is_not_this_machines_is_a_fault(
    tmp_path: Path, address: str, reason: str
) -> None:
    text = f"sources: [{{type: logs, paths: [/a]}}]\nweb: {{listen: ['{address}']}}\n"
    assert faults(tmp_path, text) == [reason]


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        ("web: {listen: ['a:1', 'b:1', 'a:1']}", "web.listen[2]: found 'a:1' twice"),
        (
            "state_dir: /s\nsamples: {spool: {dir: /s/}}",
            f"samples.spool.dir: found state_dir, {_OWN_FOLDER}",
        ),
    ],
)
def test_what_excludes_itself_is_a_fault(tmp_path: Path, section: str, fault: str) -> None:
    text = f"sources: [{{type: logs, paths: [/a]}}]\n{section}\n"
    assert f"agent.yaml: {fault}" in faults(tmp_path, text)


def test_a_port_that_the_agent_uses_already_is_no_fault(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as agent:
        address = f"127.0.0.1:{agent.getsockname()[1]}"
        text = f"sources: [{{type: logs, paths: [/a]}}]\nweb: {{listen: ['{address}']}}\n"
        assert faults(tmp_path, text) == []
