import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.run import EXAMPLE
from agent.config.codec import (
    decode,
    encode,
    field_types,
    format_duration,
    format_size,
    key_of,
    parse_duration,
    parse_size,
)
from agent.config.logging_config import LogFormat, LogLevel
from agent.errors import ConfigError
from agent.sources.inspection.config import GroupsSourceConfig
from agent.sources.logs.config import LogConfig
from agent.sources.registry import SOURCE_TYPES
from agent.web.web_config import WebFileConfig
from agent.wiring.agent_config import AgentConfig, Overrides, effective, load
from metrics.model.units import Duration, Size
from metrics.tracking.status_track import StatusConfig

LEAST = """
sources:
  - {type: logs, paths: ["/var/log/app/*.log"]}
"""

FULL = """
cluster: {name: prod-eu}
role: sidecar
host: ${POD_NAME}
timezone: UTC
state_dir: /var/lib/rebalance-agent
apps: {payments: [payments-in, payments-out], "re:^etl-(.+)$": "etl-$1"}
groups: {include: ["re:.*"], exclude: [_internal]}
sources:
  - {type: logs, paths: ["/var/log/app/*.log"], dialects: auto}
  - {type: broker_log, paths: [/var/log/kafka/server.log]}
  - {type: librdkafka_stats, path: /var/run/app/stats.sock, group: payments-in}
  - {type: http, token_file: /run/secrets/events, max_bytes: 1MiB}
status: {linger: 60s, stale_after: 10m, forget_after: 5m, peak_window: 2m}
samples: {interval: 15s, spool: {dir: /var/spool/agent, max_bytes: 512MiB, roll: 60s}}
web: {listen: [":12472"], telemetry_path: /metrics}
limits: {members: 20000, groups: 5000, series: 100000, memory: 300MiB}
log: {level: info, format: logfmt}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "agent.yaml"


def refusal(file: Path, text: str, **environ: str) -> str:
    """Return the error for an invalid file, without the name of its folder."""
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, environ=environ)
    return str(caught.value).removeprefix(f"{file.parent}/")


def test_sources_alone_are_enough(file: Path) -> None:
    file.write_text(LEAST)

    config = load(file, environ={})

    assert config.status == StatusConfig()
    assert config.web.listen == (":12472",)
    assert config.samples.spool.dir == config.state_dir / "spool"
    assert isinstance(config.sources[0], LogConfig)
    assert config.sources[0].paths == ("/var/log/app/*.log",)


def test_the_full_example_is_read(file: Path) -> None:
    file.write_text(FULL)

    config = load(file, environ={"POD_NAME": "pod-7"})

    assert config.host == "pod-7"
    assert config.status.stale_after_s == 600
    assert config.samples.spool.max_bytes == 512 * 1024 * 1024
    assert config.limits.series == 100_000
    assert config.limits.memory == 300 << 20
    assert [config.app_of(g) for g in ("payments-in", "etl-7", "other")] == [
        "payments",
        "etl-7",
        "other",
    ]
    assert [config.is_watched(g) for g in ("any", "_internal")] == [True, False]


def test_the_effective_configuration_loads_as_itself(file: Path) -> None:
    file.write_text(FULL)
    config = load(file, environ={"POD_NAME": "pod-7"})

    file.write_text(yaml.safe_dump(effective(config)))

    assert load(file, environ={}) == config


def test_limits_bound_the_tracker(file: Path) -> None:
    file.write_text(LEAST + "limits: {members: 7, groups: 3}")

    config = load(file, environ={})

    assert (config.status.members, config.status.groups) == (7, 3)


def test_a_pod_names_version_and_image_of_its_application(file: Path) -> None:
    file.write_text(LEAST + "workload: {version: '1', image: 'pay:1'}")
    environ = {"REBALANCE_AGENT_WORKLOAD_VERSION": "2", "REBALANCE_AGENT_WORKLOAD_IMAGE": ""}

    assert load(file, environ=environ).workload.values == {"version": "2", "image": "pay:1"}
    assert load(file, environ={}).workload.values == {"version": "1", "image": "pay:1"}


def test_overrides_win_over_the_file(file: Path) -> None:
    file.write_text(LEAST + "log: {level: debug, format: logfmt}")
    overrides = Overrides(listen=("127.0.0.1:0",), log_level="error", log_format="json")

    config = load(file, overrides, environ={})

    assert config.web.listen == ("127.0.0.1:0",)
    assert (config.log.level, config.log.format) == (LogLevel.ERROR, LogFormat.JSON)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "sources: found none, wanted a list of at least one source, such as [{type: logs"),
        ("[1]", "found list, wanted a mapping of sections"),
        ("a: b: c", "line 1, column 5: mapping values are not allowed here"),
        ("a: 1\na: 2", "line 2, column 1: the key 'a' stands here twice"),
        ("a: &x 1\nb: *x", "line 2, column 4: aliases are not taken"),
        (
            "a: !!python/object/apply:os.system [id]",
            "line 1, column 4: the tag 'tag:yaml.org,2002:python/object",
        ),
        ("a: \x01", "no YAML: unacceptable character"),
        (LEAST + "sample: {}", "sample: unknown key; did you mean 'samples'?"),
        (
            "sources: [{type: log}]",
            "sources[0].type: unknown source 'log'; did you mean 'logs'?",
        ),
        ("? [a]\n: b", "line 1, column 3: wanted a plain key"),
        ("sources: [{type: [logs]}]", "sources[0].type: wanted one of: logs"),
        (LEAST + "log: {level: [info]}", "log.level: unknown list; "),
        ("sources: [logs]", "sources[0]: wanted a mapping with the key 'type'"),
        ("sources: [{type: logs}]", "sources[0].paths: is missing"),
        (
            "sources: [{type: logs, paths: [a], path: b}]",
            "sources[0].path: unknown key; did you mean 'paths'?",
        ),
        ("sources: [{type: logs, paths: []}]", "sources[0].paths: found none, wanted at least"),
        (
            "sources: [{type: logs, paths: [a]}, {type: logs, paths: [a]}]",
            "sources[1]: reads the same as sources[0]",
        ),
        (
            "sources: [{type: logs, paths: [a], dialects: java-9.1}]",
            "sources[0].dialects: unknown dialect 'java-9.1'; known: auto, aiokafka",
        ),
        (
            "sources: [{type: logs, paths: [a], rules: [{text: a, raise: Newmember}]}]",
            "sources[0].rules[0].raise: found 'Newmember', wanted one of CoordinatorRequested",
        ),
        ("sources: [{type: logs, paths: a}]", "sources[0].paths: found 'a', wanted a list"),
        ("sources: [{type: capture, ports: []}]", "sources[0].ports: found 0, wanted 1 to 16"),
        (
            "sources: [{type: capture, ports: [9092, 0]}]",
            "sources[0].ports[1]: found 0, wanted 1 to 65535",
        ),
        ("sources: [{type: logs, paths: [a], dialects: }]", "sources[0].dialects: found None, wan"),
        ("sources: [{type: logs, paths: [a], dialects: 5}]", "sources[0].dialects: found 5, wan"),
        ("sources: [{type: logs, paths: [a], dialects: []}]", "sources[0].dialects: found [], wan"),
        ("sources: [{type: logs, paths: [a], dialects: [5]}]", "sources[0].dialects: found [5], w"),
        (LEAST + "state_dir: ~nobody-here/x", "state_dir: found '~nobody-here/x', which has"),
        ("sources: [{type: capture, interface: ''}]", "sources[0].interface: found none"),
        ("sources: [{type: broker_log, paths: []}]", "sources[0].paths: found none, wanted at l"),
        ("sources: [{type: librdkafka_stats, path: ''}]", "sources[0].path: found none, wanted"),
        ("sources: [{type: http, max_bytes: 0}]", "sources[0].max_bytes: found 0, wanted room"),
        ("sources: [{type: http}, {type: http}]", "sources[1]: reads the same as sources[0]"),
        (
            "sources: [{type: capture, interface: lo, ports: [1]}, {type: http}, {type: capture}]",
            "sources[2]: captures the same packets (one source takes several ports) as sources[0]",
        ),
        (
            "sources: [{type: capture, interface: lo}, {type: capture, interface: lo, ports: [1]}]",
            "sources[1]: captures the same packets",
        ),
        (
            (
                "sources: [{type: proxy, listen: ':1', upstream: [a:2]},"
                " {type: proxy, listen: ':1', upstream: [b:2]}]"
            ),
            "sources[1]: listens at the same address as sources[0]",
        ),
        (
            LEAST + "status: {linger: 60}",
            "status.linger: found 60, wanted a duration such as 30s, 5m or 1h30m",
        ),
        (LEAST + "status: {members: 1}", "status.members: unknown key; did you mean 'limits.m"),
        (LEAST + "status: 5", "status: found 5, wanted a mapping"),
        (LEAST + "limits: {series: many}", "limits.series: found 'many', wanted a whole"),
        (LEAST + "limits: {memory: 63MiB}", "limits.memory: found 63MiB, wanted 64MiB or more"),
        (LEAST + "limits: {memory: much}", "limits.memory: found 'much', wanted a size such as"),
        (LEAST + "limits: {series: true}", "limits.series: found True, wanted a whole number"),
        (
            LEAST + "samples: {spool: {max_bytes: 1GB}}",
            "samples.spool.max_bytes: found '1GB', wanted a size such as 64KiB or 512MiB",
        ),
        (LEAST + "samples: {spool: {roll: 0s}}", "samples.spool.roll: "),
        (LEAST + "samples: {interval: 1ms}", "samples.interval: found '1ms', wanted 1s or more"),
        (
            LEAST + "samples: {spool: {max_bytes: 1MiB}}",
            "samples.spool.max_bytes: found 1MiB, wanted at least twice file_bytes, 16MiB",
        ),
        (
            LEAST + "samples: {spool: {file_bytes: 0}}",
            "samples.spool.file_bytes: found 0, wanted 1 or more",
        ),
        ("sources: {type: logs}", "sources: found dict, wanted a list of at least one source"),
        (LEAST + "limits: {series: -1}", "limits.series: found -1, wanted a whole number, 0 or"),
        (LEAST + "timezone: Mars/Base", "timezone: found 'Mars/Base', wanted UTC or an IANA"),
        (LEAST + "log: {level: loud}", "log.level: unknown 'loud'; allowed: debug, error, info"),
        (LEAST + "status: " + "x" * 999, f"status: found '{'x' * 79}…, wanted a mapping"),
        (LEAST + "web: {listen: []}", "web.listen: wanted at least one address"),
        (LEAST + "web: {listen: ['12472']}", "web.listen[0]: found '12472', wanted host:port"),
        (LEAST + "web: {listen: [':99999']}", "web.listen[0]: found ':99999', wanted host:port"),
        (LEAST + "hub: {push_to: ['http://h:x']}", "hub.push_to[0]: found 'http://h:x', wanted"),
        (LEAST + "hub: {push_to: ['http://a..b']}", "hub.push_to[0]: found 'http://a..b'"),
        (LEAST + "web: {state_sets: yes please}", "web.state_sets: found 'yes please', wanted tr"),
        (LEAST + "web: {external_url: 'here'}", "web.external_url: found 'here', wanted an addr"),
        (LEAST + "web: {external_url: 'http://a:b@h'}", "web.external_url: found a password"),
        (LEAST + "hub: {push_to: ['http://a:b@h']}", "hub.push_to[0]: found a password in it"),
        (
            LEAST + "cluster: {security: {protocol: SASL_SSL, mechanism: OAUTHBEARER, username: u, "
            "password_file: /p, token_url: 'https://a:b@h'}}",
            "cluster.security.token_url: found a password in it",
        ),
        (LEAST + "web: {external_url: 'http://h/'}", "web.external_url: found a / at its end"),
        (LEAST + 'state_dir: "/a\\0b"', "state_dir: found '/a\\x00b', wanted a path"),
        (LEAST + "web: {telemetry_path: m}", "web.telemetry_path: found 'm', wanted a path"),
        (LEAST + "web: {telemetry_path: /-/ready}", "web.telemetry_path: found '/-/ready', wa"),
        (LEAST + "apps: {a: b}", "apps.a: found 'b', wanted a list of groups, or"),
        (LEAST + "apps: {'re:(': b}", "apps.re:(: 're:(' is no regular expression"),
        pytest.param(
            LEAST + f"groups: {{include: ['re:{'(' * 5000}']}}",
            "groups.include: 're:((((",
            id="too deep",
        ),
        (LEAST + "apps: {'re:a': $1}", "apps.re:a: $1 is wanted, the pattern has 0"),
        (LEAST + "groups: {include: ['re:[']}", "groups.include: 're:[' is no regular expression"),
        (LEAST + "host: ${NOT_SET}", "host: the environment variable 'NOT_SET' is not set"),
    ],
)
def test_a_wrong_file_says_where_and_what(file: Path, text: str, said: str) -> None:
    assert refusal(file, text).startswith(f"agent.yaml: {said}")


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: cannot be read: No such file"):
        load(tmp_path / "nowhere.yaml")


def test_a_file_that_grows_when_it_is_walked_is_refused(file: Path) -> None:
    """Eight lists of ten aliases each are a hundred million values in 400 bytes."""
    lists = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lists += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]
    file.write_text("\n".join([*lists, "host: *a7", ""]))

    with pytest.raises(ConfigError, match="line 2, column 10: aliases are not taken"):
        load(file)


def test_a_deep_file_is_refused(file: Path) -> None:
    file.write_text("host: " + "[" * 100_000)

    with pytest.raises(ConfigError, match="no YAML: maximum recursion depth exceeded"):
        load(file)


def test_a_file_that_is_no_configuration_is_not_read_whole() -> None:
    with pytest.raises(ConfigError, match=r"/dev/zero: is larger than 1 MiB"):
        load(Path("/dev/zero"))


def test_deep_nesting_is_an_error_of_the_file(file: Path) -> None:
    assert refusal(file, "a: " + "[" * 5000).startswith("agent.yaml: ")


def test_a_variable_cannot_change_the_structure(file: Path) -> None:
    file.write_text(LEAST + "host: ${HOST}-$${HOST}")

    config = load(file, environ={"HOST": "a: {b: [*x"})

    assert config.host == "a: {b: [*x-${HOST}"


@dataclass(frozen=True, slots=True)
class _Login:
    user: str
    password: str | None = field(default=None, repr=False)


def test_secrets_are_hidden() -> None:
    login = decode(_Login, {"user": "agent", "password": "s3cret"}, "agent.yaml: ")

    assert encode(login) == {"user": "agent", "password": "<hidden>"}
    assert encode(_Login("agent")) == {"user": "agent", "password": None}


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("1h30m", 5400), ("1.5s", 1.5), ("250ms", 0.25), (0, 0)]
)
def test_durations(text: object, seconds: float) -> None:
    assert parse_duration(text, "here") == seconds


@pytest.mark.parametrize("text", ["", "s", "1", "-1s", "1s ", "1 s", None, True, 30, "1e3s"])
def test_no_durations(text: object) -> None:
    with pytest.raises(ConfigError, match=r"here: found .*, wanted a duration"):
        parse_duration(text, "here")


@given(st.integers(min_value=0, max_value=10**10))
def test_a_duration_is_written_as_it_is_read(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000), "") == pytest.approx(
        milliseconds / 1000
    )


@given(st.integers(min_value=0, max_value=2**50))
def test_a_size_is_written_as_it_is_read(size: int) -> None:
    assert parse_size(format_size(size), "") == size


@given(st.text() | st.integers() | st.none() | st.booleans() | st.floats())
def test_any_value_is_a_size_or_a_configuration_error(value: object) -> None:
    with suppress(ConfigError):
        assert parse_size(value, "here") >= 0


NINES = "9" * 5000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("status: {linger: 3651d}", "status.linger: found '3651d', wanted at most ten years"),
        (f"status: {{linger: {NINES}h}}", "status.linger: found '99999"),
        (f"limits: {{series: '{NINES}'}}", "limits.series: found '99999"),
        (f"limits: {{memory: {NINES}B}}", "limits.memory: found '99999"),
        (f"samples: {{spool: {{max_bytes: {NINES}TiB}}}}", "samples.spool.max_bytes: found '999"),
    ],
)
def test_a_number_without_end_is_refused(file: Path, text: str, said: str) -> None:
    assert refusal(file, LEAST + text).startswith(f"agent.yaml: {said}")


@pytest.mark.parametrize(
    "number", ["0x" + "f" * 5000, "0b" + "1" * 20_000, "0" + "7" * 5000, "1" + ":59" * 5000, NINES]
)
def test_a_number_of_any_base_without_end_is_refused(file: Path, number: str) -> None:
    """Its message could not be formatted, and base 60 takes quadratic time."""
    said = refusal(file, LEAST + f"limits: {{members: {number}}}")

    assert f"a number of {len(number)} characters is not taken" in said


def test_half_of_a_character_is_refused(file: Path) -> None:
    """An escape can write it, and no checkpoint, sample or page could."""
    assert "line 4, column 7: 'a\\ud800' holds half of a character" in refusal(
        file, LEAST + 'host: "a\\ud800"'
    )


def test_the_example_that_run_shows_is_a_configuration(file: Path) -> None:
    file.write_text(EXAMPLE)

    assert load(file, environ={}).sources


_SECTIONS = ["apps", "cluster", "groups", "host", "limits", "log", "role", "samples", "sources"]
_KEYS = ["dir", "interval", "linger", "listen", "paths", "re:(a)", "series", "spool", "type"]
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("logs"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*_SECTIONS, "status", "timezone", "web"]), _values))
def test_any_document_is_a_configuration_or_an_error_that_names_the_file(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, object]
) -> None:
    file = tmp_path_factory.getbasetemp() / "agent.yaml"
    file.write_text(yaml.safe_dump({"sources": [{"type": "logs", "paths": ["a"]}]} | document))

    with suppress(ConfigError):
        load(file, environ={})


INSPECTING = """\
role: standalone
cluster: {{bootstrap_servers: ["kafka-1:9093"], security: {security}}}
sources: [{{type: groups, interval: 30s}}]
"""


def test_inspection_has_its_cluster_and_its_interval(file: Path) -> None:
    security = "{protocol: SASL_SSL, mechanism: SCRAM-SHA-512, username: u, password_file: /p}"
    file.write_text(INSPECTING.format(security=security))

    config = load(file, environ={})

    assert config.sources == (GroupsSourceConfig(interval_s=30.0),)
    assert config.cluster.bootstrap_servers == ("kafka-1:9093",)
    assert config.cluster.security.mechanism == "SCRAM-SHA-512"
    file.write_text(yaml.safe_dump(effective(config)))
    assert load(file, environ={}) == config


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "sources: [{type: groups}]",
            "sources[0].type: found 'groups' with role 'sidecar', wanted 'standalone'",
        ),
        (
            "role: standalone\nsources: [{type: groups}]",
            "cluster.bootstrap_servers: is missing; sources[0] ('groups') wants it",
        ),
        (
            LEAST + "cluster: {bootstrap_servers: [kafka]}",
            "cluster.bootstrap_servers[0]: found 'kafka', wanted host:port such as kafka-1:9093",
        ),
        (
            "sources: [{type: groups, interval: 10ms}]",
            "sources[0].interval: found 0.01s, wanted 1s or more",
        ),
        (
            INSPECTING.format(security="{protocol: SASL_SSL}"),
            "cluster.security.mechanism: protocol is SASL_SSL, wanted a mechanism",
        ),
        (
            INSPECTING.format(security="{protocol: SSL, mechanism: PLAIN}"),
            (
                "cluster.security.mechanism: protocol is SSL, "
                "wanted protocol SASL_SSL or SASL_PLAINTEXT"
            ),
        ),
        (
            INSPECTING.format(security="{protocol: SASL_SSL, mechanism: PLAIN, username: u}"),
            "cluster.security.password_file: is missing; PLAIN wants it",
        ),
        (
            INSPECTING.format(security="{protocol: SASL_SSL, mechanism: OAUTHBEARER}"),
            "cluster.security.token_file: is missing; OAUTHBEARER wants it, or token_url",
        ),
        (
            INSPECTING.format(
                security="{protocol: SASL_SSL, mechanism: OAUTHBEARER, username: u, "
                "password_file: /p, token_url: 'https://[idp'}"
            ),
            (
                "cluster.security.token_url: found 'https://[idp', "
                "wanted an address such as https://idp/token"
            ),
        ),
        (
            INSPECTING.format(security="{protocol: SSL, key: /k}"),
            "cluster.security.certificate: is missing; there is a key",
        ),
    ],
)
def test_inspection_that_cannot_be_is_refused(file: Path, text: str, said: str) -> None:
    assert refusal(file, text) == f"agent.yaml: {said}"


def test_an_environment_variable_that_is_no_text_is_refused(file: Path) -> None:
    file.write_text(LEAST + "host: ${ODD}")

    with pytest.raises(ConfigError, match="host: the environment variable 'ODD' is no UTF-8"):
        load(file, environ={"ODD": os.fsdecode(b"\xff")})


def config_classes(cls: type) -> Iterator[type]:
    """Yield a configuration class and those of its sections."""
    yield cls
    for hint in get_type_hints(cls).values():
        for part in (hint, *get_args(hint)):
            if isinstance(part, type) and is_dataclass(part):
                yield from config_classes(part)


CONFIG_CLASSES = sorted(
    {*config_classes(AgentConfig), *config_classes(WebFileConfig)}
    | {cls for row in SOURCE_TYPES for cls in config_classes(row.config)},
    key=lambda cls: cls.__name__,
)


@pytest.mark.parametrize("cls", CONFIG_CLASSES, ids=lambda cls: cls.__name__)
def test_a_unit_in_a_name_is_a_unit_of_the_type(cls: type) -> None:
    """A bare float in a file would be a guess: the codec reads units by type, never by name."""
    for name, hint in field_types(cls).items():
        assert (hint == Duration) == name.endswith("_s"), name
        assert not name.endswith("_bytes") or hint == Size, name


@pytest.mark.parametrize("cls", CONFIG_CLASSES, ids=lambda cls: cls.__name__)
def test_a_duration_states_its_key(cls: type) -> None:
    for item in fields(cls):
        assert key_of(item) == item.name.removesuffix("_s"), item.name


@dataclass(frozen=True)
class _Delays:
    first_s: Duration = field(default=1.0, metadata={"key": "first"})
    second_s: Duration = 2.0


def test_a_key_is_what_its_field_states_and_never_a_guess_by_suffix() -> None:
    delays = decode(_Delays, {"first": "3s", "second_s": "4s"}, "agent.yaml: ")

    assert delays == _Delays(3.0, 4.0)
    assert encode(delays) == {"first": "3s", "second_s": "4s"}
    with pytest.raises(ConfigError, match=r"second: unknown key; did you mean 'second_s'\?"):
        decode(_Delays, {"second": "4s"}, "agent.yaml: ")
