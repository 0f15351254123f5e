"""Lines to paste: their names are in Kafka's own classes, and what they say fits the group."""

import re
import shlex
import zipfile
from functools import cache

import pytest

from agent.lab.artifacts import BROKER, BROKER_VERSION, Artifact, clients, default_cache, fetch
from aggregation.counterfactuals.lines import (
    POLL_INTERVAL,
    POLL_RECORDS,
    assignor_lines,
    client_lines,
    delay_lines,
    instance_lines,
    leave_lines,
    probing_lines,
    protocol_lines,
    static_lines,
)
from aggregation.incidents.settings import ClientKind
from tests.aggregation.counterfactuals.given import K, incident
from tests.aggregation.counterfactuals.test_rules import changes

_CLASSES = {
    "Java": ("ConsumerConfig",),
    "Spring": ("ConsumerConfig",),
    "Streams": ("ConsumerConfig", "StreamsConfig"),
    "broker": ("GroupConfig", "GroupCoordinatorConfig"),
}
_SETTING = re.compile(r"^([a-z][a-z.]+)=", re.MULTILINE)
_OF_OLD_STREAMS = "internal.leave.group.on.close"
ALL = (
    *client_lines({POLL_INTERVAL: "1", POLL_RECORDS: "1"}, "g", None),
    *static_lines("60000", "g", None),
    *assignor_lines("range"),
    *protocol_lines(ClientKind.CONSUMER),
    *protocol_lines(ClientKind.STREAMS),
    *instance_lines(),
    *leave_lines(),
    *probing_lines("1200000"),
    *delay_lines("6000"),
)


@cache
def constants(version: str, name: str) -> bytes:
    """Return the constants of Kafka's classes of that name."""
    sets: list[tuple[Artifact, ...]] = [clients(version)]
    if version == BROKER_VERSION:
        sets.append(BROKER)
    found = []
    for artifacts in sets:
        for jar in fetch(artifacts, default_cache()):
            with zipfile.ZipFile(jar) as archive:
                found += [
                    archive.read(each)
                    for each in archive.namelist()
                    if each.startswith("org/apache/kafka/") and each.endswith(f"/{name}.class")
                ]
    assert found
    return b"".join(found)


def is_known(setting: str, client: str, version: str = BROKER_VERSION) -> bool:
    """Look for a setting among a class's constants, each of which begins with its length."""
    constant = b"\x01" + len(setting).to_bytes(2, "big") + setting.encode()
    return any(constant in constants(version, name) for name in _CLASSES[client])


@pytest.mark.parametrize(("client", "text"), [pair for pair in ALL if pair[0] in _CLASSES])
def test_settings_are_those_of_kafka(client: str, text: str) -> None:
    for setting in _SETTING.findall(text):
        name = setting.removeprefix("spring.kafka.consumer.properties.")
        if client == "Streams":
            name = name.removeprefix("consumer.")
        if name != _OF_OLD_STREAMS:
            assert is_known(name, client), name


def test_spring_takes_an_id_from_a_name_that_has_to_stay() -> None:
    note, line, _ = dict(static_lines("60000", "g", None))["Spring"].split("\n")
    assert line.endswith("group.instance.id=${HOSTNAME}")
    assert note == "# a pod's name stays in a StatefulSet, not in a Deployment"


def test_setting_that_newer_streams_lacks_is_named_with_its_versions() -> None:
    (text,) = dict(leave_lines()).values()
    assert f"# Kafka 4.1 or older\n{_OF_OLD_STREAMS}=true" in text
    assert is_known(_OF_OLD_STREAMS, "Streams", "3.9.1")
    assert not is_known(_OF_OLD_STREAMS, "Streams")
    (call,) = re.findall(r"GroupMembershipOperation\.([A-Z_]+)\)", text)
    assert call.encode() in constants(BROKER_VERSION, "CloseOptions$GroupMembershipOperation")
    assert b"groupMembershipOperation" in constants(BROKER_VERSION, "CloseOptions")


@pytest.mark.parametrize("group_type", ["consumer", "streams", "share"])
def test_session_timeout_of_a_new_group_is_the_brokers_within_its_limit(group_type: str) -> None:
    lines = dict(client_lines({f"{group_type}.session.timeout.ms": "90000"}, "a b", group_type))
    assert list(lines) == ["broker"]
    note, command = lines["broker"].split("\n")
    limit = note.split()[1]
    assert limit == f"group.{group_type}.max.session.timeout.ms"
    words = shlex.split(command)
    assert words[words.index("--entity-name") + 1] == "a b"
    setting, _, value = words[-1].partition("=")
    assert value == "90000"
    assert is_known(limit, "broker")
    assert is_known(f"group.{group_type}.max.size", "broker")
    assert is_known(setting, "broker")


def test_streams_group_has_no_lines_of_other_clients() -> None:
    assert [name for name, _ in client_lines({POLL_INTERVAL: "600000"}, "g", "streams")] == [
        "Streams"
    ]


@pytest.mark.parametrize(
    ("now", "kept"),
    [
        (None, "RangeAssignor"),
        ("range", "RangeAssignor"),
        ("roundrobin", "RoundRobinAssignor"),
        ("sticky", "StickyAssignor"),
        ("com.example.Own", "com.example.Own"),
    ],
)
def test_first_deploy_keeps_the_assignor_that_members_have(now: str | None, kept: str) -> None:
    """Without one in common the coordinator refuses the first member of the new version."""
    join = incident("j", K.MEMBER_JOINED, unread_s=60.0, moved_s=5.0, assignor=now)
    change = changes(join)["partition.assignment.strategy"]
    for client in ("Java", "Spring"):
        strategy = dict(change.lines)[client].rpartition("=")[2].split(",")
        assert strategy[0].endswith(".CooperativeStickyAssignor")
        assert strategy[1].endswith(kept)
        known = now is None or "." not in now
        assert not known or strategy[1].replace(".", "/") in _paths()


@cache
def _paths() -> frozenset[str]:
    return frozenset(
        name.removesuffix(".class")
        for jar in fetch(clients(BROKER_VERSION), default_cache())
        for name in zipfile.ZipFile(jar).namelist()
    )
