import dataclasses
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from agent.cli import main
from agent.inspection import client
from agent.inspection.connection.admin_requests import Api
from agent.inspection.connection.broker_connection import Connection
from metrics.model.sample import encode
from metrics.model.signals import Member, SignalKind
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.agent.inspection.simulated import HOST, KAFKA_28, Group, Simulated
from tests.agent.inspection.simulated_messages import KAFKA_21
from tests.metrics.given import raised, run, signal

GROUPS = {
    "clicks": Group(type="consumer", epoch=4, state="Reconciling", members={"c1-a": {"t": [0]}}),
    "connect-s3": Group(protocol="connect"),
    "offsets": Group(protocol="", state="Empty"),
    "orders": Group(members={"c1-a": {"t": [1, 0]}, "c2-b": {"t": [2]}}),
    "queue": Group(type="share", protocol="share"),
    "views": Group(type="streams", protocol="streams", members={"s1-a": {"0": [0, 1]}}),
}


TOPIC_DENIED, INVALID_GROUP_ID = 29, 24


def call(cluster: Simulated, *arguments: str) -> Result:
    arguments = ("groups", *arguments, "--bootstrap-server", cluster.bootstrap)
    return CliRunner().invoke(main, arguments)


def shown(cluster: Simulated, *arguments: str) -> list[str]:
    """Return the names of the groups that a list shows."""
    result = call(cluster, "list", *arguments)
    assert result.exit_code == 0, result.stderr
    return [line.split()[0] for line in result.stdout.splitlines()[1:]]


def test_groups_are_listed_as_a_table() -> None:
    with Simulated(GROUPS) as cluster:
        result = call(cluster, "list")
        broker = f"{HOST}:{cluster.ports[1]} (1)"

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "GROUP      TYPE     PROTOCOL STATE       COORDINATOR",
        f"clicks     Consumer consumer Reconciling {broker}",
        f"connect-s3 Classic  connect  Stable      {broker}",
        f"offsets    Classic  -        Empty       {broker}",
        f"orders     Classic  consumer Stable      {broker}",
        f"queue      Share    share    Stable      {broker}",
        f"views      Streams  streams  Stable      {broker}",
    ]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--group-type", "classic"], ["connect-s3", "offsets", "orders"]),
        (["--group-type", "Classic", "--protocol", "connect"], ["connect-s3"]),
        (["--protocol", "consumer"], ["clicks", "orders"]),
        (["--consumer"], ["clicks", "offsets", "orders"]),
        (["--share"], ["queue"]),
        (["--streams"], ["views"]),
        (["--state", "empty", "--state", "Reconciling"], ["clicks", "offsets"]),
        (["--consumer", "--state", "Stable"], ["orders"]),
        (["--state", "Dead"], []),
    ],
)
def test_filters_choose(arguments: list[str], names: list[str]) -> None:
    with Simulated(GROUPS) as cluster:
        assert shown(cluster, *arguments) == names


def test_an_older_brokers_groups_have_an_empty_type_until_a_filter_asks() -> None:
    groups = {"orders": GROUPS["orders"], "connect-s3": GROUPS["connect-s3"]}
    with Simulated(groups, versions=KAFKA_28) as cluster:
        result = call(cluster, "list")
        assert result.stdout.splitlines()[2].split()[:4] == ["orders", "-", "consumer", "Stable"]
        assert cluster.asked[1, Api.DESCRIBE_GROUPS] == 0

        assert shown(cluster, "--consumer") == ["orders"]
        assert shown(cluster, "--group-type", "consumer") == []


@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_documents_hold_all_there_is(output: str, load: Callable[[str], dict[str, Any]]) -> None:
    with Simulated(GROUPS) as cluster:
        listed = load(call(cluster, "list", "--share", "--output", output).stdout)
        described = load(call(cluster, "describe", "clicks", "--output", output).stdout)
        node = {"node_id": 1, "host": HOST, "port": cluster.ports[1]}

    assert listed == {
        "groups": [
            {
                "group": "queue",
                "type": "Share",
                "protocol": "share",
                "state": "Stable",
                "coordinator": node,
            }
        ],
        "errors": [],
        "partial": False,
        "down": [],
    }
    assert described["groups"] == [
        {
            "group": "clicks",
            "type": "Consumer",
            "protocol": "consumer",
            "state": "Reconciling",
            "coordinator": node,
            "assignor": "uniform",
            "simple": False,
            "epoch": 4,
            "target_epoch": 4,
            "topology_epoch": None,
            "generation": None,
            "leader": None,
            "leader_url": None,
            "assignor_votes": None,
            "authorized_operations": ["READ", "DESCRIBE"],
            "members": [
                {
                    "member_id": "c1-a",
                    "instance_id": None,
                    "client_id": "c1",
                    "host": "/10.0.0.1",
                    "rack": None,
                    "epoch": 4,
                    "protocol": "classic",
                    "subscription": ["t"],
                    "subscription_regex": None,
                    "owned": {"t": [0]},
                    "target": {"t": [0]},
                    "claimed": None,
                    "claimed_generation": None,
                    "user_data": None,
                    "assignment_user_data": None,
                    "process_id": None,
                    "endpoint": None,
                    "topology_epoch": None,
                    "client_tags": None,
                    "url": None,
                    "connectors": None,
                    "assignors": None,
                }
            ],
            "subtopologies": None,
            "offsets": None,
        }
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_answers_with_wrong_bytes_end_in_a_sentence(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, sound = random.Random(seed), Connection._read_frame

    async def changed(connection: Connection, api: Api, size: int) -> bytes:
        frame = bytearray(await sound(connection, api, size))
        if drawn.random() < 0.35:
            for _ in range(drawn.randint(1, 4)):
                frame[drawn.randrange(4, len(frame))] = drawn.choice([0, 1, 0x7F, 0x80, 0xFF])
        return bytes(frame)

    monkeypatch.setattr(Connection, "_read_frame", changed)
    monkeypatch.setattr("agent.inspection.client.RETRY_TIMEOUT_S", 0.1)
    with Simulated(GROUPS) as cluster:
        for arguments in (["list"], ["describe", *GROUPS, "--members", "--verbose"]) * 60:
            result = call(cluster, *arguments, "--timeout", "0.3")
            assert isinstance(result.exception, SystemExit | None), result.exception


def test_no_control_character_reaches_the_terminal() -> None:
    odd = "g\x1b[2J\n"
    with Simulated({odd: Group(members={"m\x07-a": {"t": [0]}})}) as cluster:
        listed = call(cluster, "list").stdout
        got = call(cluster, "describe", odd, "--members").stdout

    assert [line.split()[0] for line in listed.splitlines()] == ["GROUP", r"g\x1b[2J\n"]
    assert r"m\x07-a" in got
    assert not {"\x1b", "\x07"} & set(listed + got)


def test_members_are_described_as_a_table_of_their_own() -> None:
    with Simulated(GROUPS) as cluster:
        result = call(cluster, "describe", "orders", "views", "--members", "--verbose")

    assert result.exit_code == 0
    groups, members = result.stdout.split("\n\n")
    assert groups.splitlines()[1].split()[:4] == ["orders", "Classic", "consumer", "Stable"]
    assert groups.splitlines()[1].endswith("no     READ,DESCRIBE")
    rows = [line.split() for line in members.splitlines()]
    assert rows[0][:3] == ["GROUP", "MEMBER-ID", "INSTANCE-ID"]
    assert rows[0][12:] == ["TARGET-EPOCH", "PROCESS", "TOPOLOGY-EPOCH"]  # a streams group's
    assert rows[1] == [
        "orders",
        "c1-a",
        "-",
        "c1",
        "/10.0.0.1",
        "-",
        "t:0,1",
        "-",
        "-",
        "-",
        "t",
        *("-", "-", "-", "-"),
    ]
    assert rows[3][:2] == ["views", "s1-a"]
    assert rows[3][6] == "active/0:0,1"


class Agent(BaseHTTPRequestHandler):
    """Has seen members of one group."""

    def do_GET(self) -> None:
        both = ["range", "cooperative-sticky"]
        got = [
            ("c1-a", 4, "c1-a", both),
            ("c2-b", 5, "c2-b", ["range"]),
            ("gone", 9, None, None),
            ("c1-a", None, None, None),
        ]
        names = ("member_id", "generation", "leader", "assignors")
        seen = [dict(zip(names, each, strict=True)) for each in got]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(seen if self.path.endswith("group=orders") else []).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def agent() -> Iterator[str]:
    with HTTPServer((HOST, 0), Agent) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://{HOST}:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_classic_groups_generation_and_leader_come_from_an_agent(agent: str) -> None:
    names = ("orders", "connect-s3", "clicks")
    with Simulated(GROUPS) as cluster:
        result = call(cluster, "describe", *names, "--output", "json", "--from", agent)

    assert result.exit_code == 0, result.stderr
    got = [(each["generation"], each["leader"]) for each in json.loads(result.stdout)["groups"]]
    assert got == [(5, "c2-b"), (None, None), (None, None)]


def test_what_is_observed_has_columns_of_its_own(agent: str) -> None:
    with Simulated(GROUPS) as cluster:
        head, row = call(cluster, "describe", "orders", "--from", agent).stdout.splitlines()

    assert (head.split()[-2:], row.split()[-2:]) == (["GENERATION", "LEADER"], ["5", "c2-b"])


def test_votes_for_the_assignor_are_counted_from_the_members_joins(agent: str) -> None:
    with Simulated(GROUPS) as cluster:
        chosen = call(cluster, "describe", "orders", "--verbose", "--from", agent).stdout

    votes = chosen.split("\n\n")[1].splitlines()
    assert votes[0].split() == ["GROUP", "ASSIGNOR", "CHOSEN", "SUPPORTED-BY", "VOTES", "REASON"]
    assert votes[1].split(maxsplit=5) == [
        *("orders", "range", "yes", "2", "2", "2 of 2 members prefer it")
    ]
    assert votes[2].split(maxsplit=5) == [
        *("orders", "cooperative-sticky", "no", "1", "0", "not supported by c2-b")
    ]


def test_generation_comes_from_a_spool_too(tmp_path: Path) -> None:
    member = Member(group="orders", client_id="c1", member_id="c1-a", origin="s")
    got = run(
        Tracker(StatusConfig()),
        raised(1, 10.0, member),
        signal(SignalKind.SYNC, 11.0, member, generation=7),
    )
    (tmp_path / "1.jsonl").write_bytes(b"".join(map(encode, got)))
    with Simulated(GROUPS) as cluster:
        result = call(cluster, "describe", "orders", "--output", "json", "--from", str(tmp_path))

    assert json.loads(result.stdout)["groups"][0]["generation"] == 7


def test_spool_that_cannot_be_read_is_told_and_the_group_is_shown(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl.gz").write_bytes(b"no gzip")
    with Simulated(GROUPS) as cluster:
        result = call(cluster, "describe", "orders", "--from", str(tmp_path))

    assert result.exit_code == 1
    assert result.stdout.splitlines()[1].startswith("orders ")
    assert result.stderr.startswith(f"Warning: no generation and leader: {tmp_path}/1.jsonl.gz: ")


def test_place_that_does_not_answer_is_told_and_the_group_is_shown() -> None:
    with Simulated(GROUPS) as cluster:
        result = call(cluster, "describe", "orders", "--from", "http://127.0.0.1:9")

    assert result.exit_code == 1
    assert result.stdout.splitlines()[1].startswith("orders ")
    assert result.stderr.startswith("Warning: no generation and leader: http://127.0.0.1:9: ")


def test_what_cannot_be_described_is_told_and_the_rest_is_shown() -> None:
    with Simulated(GROUPS) as cluster:
        result = call(cluster, "describe", "orders", "nope", "--group-type", "classic")
        wrong = call(cluster, "describe", "orders", "--group-type", "share")

    assert (result.exit_code, wrong.exit_code) == (1, 1)
    assert result.stdout.splitlines()[1].startswith("orders ")
    assert result.stderr == "Error: group 'nope': GROUP_ID_NOT_FOUND: Group nope not found.\n"
    assert (wrong.stdout, wrong.stderr) == (
        "",
        "Error: group 'orders' (Classic, Stable): is a classic consumer group, not a share group\n",
    )


def test_a_group_that_may_be_listed_and_not_described_keeps_its_type_and_state() -> None:
    with Simulated(GROUPS) as cluster:
        cluster.errors[Api.CONSUMER_GROUP_DESCRIBE, "clicks"] = [TOPIC_DENIED, TOPIC_DENIED]
        cluster.errors[Api.STREAMS_GROUP_DESCRIBE, "views"] = [TOPIC_DENIED, TOPIC_DENIED]
        result = call(cluster, "describe", "clicks", "views")
        document = json.loads(call(cluster, "describe", "clicks", "--output", "json").stdout)

    hint = "TOPIC_AUTHORIZATION_FAILED: ACLs for Describe on its topics are wanted"
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        f"Error: group 'clicks' (Consumer, Reconciling): {hint}",
        f"Error: group 'views' (Streams, Stable): {hint}",
    ]
    assert [(each["type"], each["state"]) for each in document["errors"]] == [
        ("Consumer", "Reconciling")
    ]


def test_one_unreachable_broker_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RETRY_TIMEOUT_S", 0.1)
    groups = GROUPS | {f"there-{number}": Group(node_id=2) for number in range(5)}
    with Simulated(groups, nodes=2) as cluster:
        there = [name for name in groups if name.startswith("there")]
        cluster.kill(2)
        result = call(cluster, "describe", "orders", *there)
        address = f"{HOST}:{cluster.ports[2]}"

    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: groups 'there-0', 'there-1', 'there-2' and 2 more: unreachable:")
    assert line.endswith(f"{address}: cannot be reached: connection refused")


def test_an_empty_name_is_an_error_with_a_hint() -> None:
    with Simulated(GROUPS) as cluster:
        cluster.errors[Api.FIND_COORDINATOR, ""] = [INVALID_GROUP_ID]
        result = call(cluster, "describe", "")

    assert result.stderr == (
        "Error: group '': INVALID_GROUP_ID: a name is wanted that is not empty\n"
    )


def test_authorized_operations_are_a_column() -> None:
    with Simulated(GROUPS) as cluster:
        head, row = call(
            cluster, "describe", "orders", "--authorized-operations"
        ).stdout.splitlines()

    assert head.split()[-1] == "AUTHORIZED-OPERATIONS"
    assert row.split()[-1] == "READ,DESCRIBE"


def test_a_partial_list_names_the_broker_that_is_missing() -> None:
    groups = GROUPS | {"there": Group(node_id=2)}
    with Simulated(groups, nodes=2) as cluster:
        cluster.kill(2)
        result = call(cluster, "list")
        document = json.loads(call(cluster, "list", "--output", "json").stdout)
        address = f"{HOST}:{cluster.ports[2]}"

    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 1 + len(GROUPS)
    assert result.stderr.startswith(f"Warning: partial: broker 2 is missing: {address}: cannot be")
    assert document["partial"] is True
    assert [(down["node_id"], down["address"]) for down in document["down"]] == [(2, address)]


@pytest.mark.parametrize("command", [["list"], ["describe", "orders"]])
def test_where_no_broker_answers_it_is_said_at_the_first_try(command: list[str]) -> None:
    with Simulated(GROUPS) as cluster:
        cluster.kill(1)
        result = call(cluster, *command)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: no broker responds: {cluster.bootstrap}: cannot be")


def test_a_denied_list_is_no_empty_list() -> None:
    with Simulated(operations=0) as cluster:
        result = call(cluster, "list")
        cluster.groups["mine"] = Group()
        mine = call(cluster, "list")

    assert result.exit_code == 1
    assert result.stderr.startswith("Error: no group is visible: an ACL for Describe on the")
    assert mine.exit_code == 0
    assert mine.stderr.startswith("Note: no ACL for Describe on the cluster")


def test_the_command_configuration_logs_in_and_may_name_the_brokers(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    jaas = 'x.PlainLoginModule required username="agent" password="right";'
    with Simulated(GROUPS, passwords={"agent": "right"}) as cluster:
        file.write_text(
            f"bootstrap.servers={cluster.bootstrap}\nsecurity.protocol=SASL_PLAINTEXT\n"
            f"sasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n"
        )
        result = CliRunner().invoke(main, ["groups", "list", "--command-config", str(file)])
        refused = call(cluster, "list")
        assert cluster.asked[1, Api.DESCRIBE_CLUSTER] == 2  # refused at the first try

    assert (result.exit_code, result.stderr) == (0, "")
    assert refused.exit_code == 1
    assert "does it want TLS or SASL?" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list"], "--bootstrap-server is missing"),
        (["list", "--bootstrap-server", " , "], "--bootstrap-server is missing"),
        (["list", "--bootstrap-server", "kafka"], "--bootstrap-server: found 'kafka', wanted"),
        (["list", "--bootstrap-server", ":9092"], "--bootstrap-server: found ':9092', wanted"),
        (["list", "--share", "--streams"], "--consumer, --share, --streams: wanted one"),
        (["list", "--share", "--protocol", "x"], "--consumer, --share, --streams: wanted one"),
        (["describe"], "wanted GROUP, a pattern, --all or --consumer"),
        (["list", "--command-config", "/none"], "/none: cannot be read: No such file"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["groups", *arguments])

    assert result.exit_code == 2
    assert said in result.stderr


# fmt: off
OFFSET_COLUMNS = [
    "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG",
    "CONSUMER-ID", "HOST", "CLIENT-ID", "TASK",
]
# fmt: on
OFFSETS = {
    "offsets": Group(protocol="", state="Empty", committed={("t", 1): 5}),
    "orders": Group(members={"c1-a": {"t": [0]}, "c2-b": {"t": [2]}}, committed={("t", 0): 90}),
    "queue": Group(type="share", protocol="share", members={"q-a": {"t": [0]}}),
    "views": Group(
        type="streams",
        protocol="streams",
        members={"s1-a": {"0": [0, 1]}},
        committed={("t", 0): 100, ("t", 1): 20},
        subtopologies=[{"subtopology_id": "0", "source_topics": ["t"]}],
    ),
}
OFFSETS["queue"].committed, OFFSETS["queue"].lags = {("t", 0): 7}, {("t", 0): 3}
ENDS = {("t", 0): 100, ("t", 1): 25, ("t", 2): 9}


def test_offsets_are_shown_by_partition_with_lag_and_owner() -> None:
    with Simulated(OFFSETS, ends=ENDS, nodes=2) as cluster:
        result = call(cluster, "describe", *OFFSETS, "--offsets")

    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split() for line in result.stdout.partition("\n\n")[2].splitlines()] == [
        OFFSET_COLUMNS,
        ["offsets", "t", "1", "5", "25", "20", "-", "-", "-", "-"],
        ["orders", "t", "0", "90", "100", "10", "c1-a", "/10.0.0.1", "c1", "-"],
        ["orders", "t", "2", "-", "9", "-", "c2-b", "/10.0.0.1", "c2", "-"],
        ["queue", "t", "0", "7", "100", "3", "-", "-", "-", "-"],
        ["views", "t", "0", "100", "100", "0", "s1-a", "/10.0.0.1", "s1", "0_0"],
        ["views", "t", "1", "20", "25", "5", "s1-a", "/10.0.0.1", "s1", "0_1"],
    ]


def test_no_lag_is_negative_where_a_partition_was_truncated_between_two_responses() -> None:
    group = dataclasses.replace(OFFSETS["views"], committed={})
    with Simulated({"views": group}, ends=ENDS, start=30) as cluster:
        result = call(cluster, "describe", "views", "--offsets", "--columns", "partition,lag")

    assert [line.split() for line in result.stdout.splitlines()[-2:]] == [["0", "70"], ["1", "0"]]


def test_offsets_are_in_json_where_they_are_wanted() -> None:
    with Simulated(OFFSETS, ends=ENDS) as cluster:
        json_format = ("--output", "json")
        without = json.loads(call(cluster, "describe", "views", *json_format).stdout)
        document = json.loads(call(cluster, "describe", "views", "--offsets", *json_format).stdout)

    assert without["groups"][0]["offsets"] is None
    assert document["groups"][0]["offsets"][1] == {
        "topic": "t",
        "partition": 1,
        "current_offset": 20,
        "leader_epoch": 0,
        "end_offset": 25,
        "lag": 5,
        "time_lag_s": None,
        "task": "0_1",
        "member_id": "s1-a",
        "host": "/10.0.0.1",
        "client_id": "s1",
    }


def test_a_column_that_is_named_is_shown_where_nothing_has_a_value() -> None:
    columns = ("--columns", "group,connectors,leader-url,task")
    with Simulated(OFFSETS, ends=ENDS) as cluster:
        result = call(
            cluster, "describe", "orders", "--members", "--verbose", "--offsets", *columns
        )

    assert (result.exit_code, result.stderr) == (0, "")
    heads = [line.split() for line in result.stdout.splitlines() if line.startswith("GROUP")]
    assert heads == [["GROUP", "LEADER-URL"], ["GROUP", "CONNECTORS"], ["GROUP", "TASK"]]


def test_the_time_lag_is_the_age_of_the_oldest_unread_record() -> None:
    with Simulated(OFFSETS, ends=ENDS) as cluster:
        now_ms = int(time.time() * 1000)
        cluster.times["t", 1] = {n: now_ms - 1000 * (3625 - n) for n in range(25)}
        result = call(cluster, "describe", "views", "--time-lag", "--columns", "lag,time-lag-s")
        document = json.loads(
            call(cluster, "describe", "views", "--time-lag", "--output", "json").stdout
        )

    at_end, behind = document["groups"][0]["offsets"]
    assert (at_end["lag"], at_end["time_lag_s"]) == (0, 0.0)
    assert 3605 <= behind["time_lag_s"] <= 3605 / 0.95
    header, first, second = (line.split() for line in result.stdout.splitlines()[-3:])
    assert header == ["LAG", "TIME-LAG-S"]
    assert first == ["0", "0"]
    assert second[0] == "5"
    assert int(second[1]) >= 3605


def test_a_group_whose_offsets_are_denied_is_an_error() -> None:
    with Simulated(OFFSETS, ends=ENDS) as cluster:
        cluster.errors[Api.OFFSET_FETCH, "views"] = [TOPIC_DENIED]
        result = call(cluster, "describe", "views", "orders", "--offsets")

    assert result.exit_code == 1
    assert result.stderr.startswith(
        "Error: group 'views' (Streams, Stable): offsets: TOPIC_AUTHORIZATION_FAILED"
    )
    assert "orders t " in result.stdout.replace("  ", " ")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["o*"], ["offsets", "orders"]),
        (["re:o.*s", "clicks"], ["clicks", "offsets", "orders"]),
        (["queue"], ["queue"]),
        (["nope*"], []),
        (["--sort", "type"], ["connect-s3", "offsets", "orders", "clicks", "queue", "views"]),
        (["--sort", "-group", "--consumer"], ["orders", "offsets", "clicks"]),
    ],
)
def test_a_list_takes_patterns_and_an_order(arguments: list[str], names: list[str]) -> None:
    with Simulated(GROUPS) as cluster:
        assert shown(cluster, *arguments) == names


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--all"], list(GROUPS)),
        (["--consumer"], ["clicks", "offsets", "orders"]),
        (["--consumer", "o*"], ["offsets", "orders"]),
        (["--group", "orders", "--group", "clicks"], ["orders", "clicks"]),
        (["re:[oc].*", "queue"], ["clicks", "connect-s3", "offsets", "orders", "queue"]),
        (
            ["--all", "--sort", "-members"],
            ["orders", "clicks", "views", "connect-s3", "offsets", "queue"],
        ),
    ],
)
def test_groups_are_described_by_pattern(arguments: list[str], names: list[str]) -> None:
    with Simulated(GROUPS) as cluster:
        result = call(cluster, "describe", *arguments)

    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == names


def test_a_pattern_without_a_group_is_an_error() -> None:
    with Simulated(GROUPS) as cluster:
        result = call(cluster, "describe", "orders", "x-*")

    assert result.exit_code == 1
    assert result.stdout.splitlines()[1].startswith("orders ")
    assert result.stderr == "Error: 'x-*' matches no group\n"


def test_columns_are_chosen_and_an_unknown_one_is_named() -> None:
    with Simulated(GROUPS) as cluster:
        result = call(cluster, "list", "--columns", "state,group", "orders")
        unknown = call(cluster, "list", "--sort", "lag")

    assert [line.split() for line in result.stdout.splitlines()] == [
        ["STATE", "GROUP"],
        ["Stable", "orders"],
    ]
    assert unknown.exit_code == 2
    assert unknown.stderr == (
        "Error: found column 'LAG', wanted one of GROUP, TYPE, PROTOCOL, STATE, COORDINATOR\n"
    )


def test_columns_of_wide_characters_are_aligned() -> None:
    with Simulated({"注文": Group(), "a": Group()}) as cluster:
        lines = call(cluster, "list").stdout.splitlines()

    assert lines[1].startswith("a     Classic")
    assert lines[2].startswith("注文  Classic")


def test_describe_without_a_group_says_what_is_wanted() -> None:
    with Simulated(GROUPS) as cluster:
        result = call(cluster, "describe")

    assert result.exit_code == 2
    assert "wanted GROUP, a pattern, --all or --consumer" in result.stderr


def test_a_broker_without_describe_cluster_is_asked_for_its_metadata() -> None:
    groups = {"orders": Group(members={"c1-a": {"t": [0]}}, committed={("t", 0): 90}, node_id=2)}
    with Simulated(groups, versions=KAFKA_21, nodes=2, ends=ENDS) as cluster:
        listed = call(cluster, "list", "orders", "--state", "stable")
        described = call(cluster, "describe", "orders", "--offsets", "--output", "json")
        address = f"{HOST}:{cluster.ports[2]} (2)"

    assert (listed.exit_code, listed.stderr) == (0, "")
    assert listed.stdout.splitlines()[1] == f"orders Classic consumer Stable {address}"
    (group,) = json.loads(described.stdout)["groups"]
    assert [each["lag"] for each in group["offsets"]] == [10]
