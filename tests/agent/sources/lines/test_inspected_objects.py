import pytest

from agent.sources.lines.exports import normalise
from agent.sources.lines.inspected_objects import join_inspected
from tests.agent.sources.lines.spoken import got, is_report, parser

_OBJECTS = b"""\
> member@1.0.0 start
{
  message: '[thrd:main]: b/1: Joining group "pay" with 1 subscribed topic(s) and member id ""',
  fac: 'JOIN',
  timestamp: 1795767216565,
  name: 'payments-1#consumer-1'
}
{
  message: '[thrd:main]: JoinGroup response: GenerationId -1, Protocol , LeaderId , my MemberId \
payments-1-d70e3f93-ecd9-4ec4-8a29-29f664cae1d9, member metadata count 0: \
Broker: Group member needs a valid member ID',
  fac: 'JOINGROUP',
  timestamp: 1795767216603,
  name: 'payments-1#consumer-1'
}
"""
"""As confluent-kafka-javascript 1.10 prints them with ``debug: 'cgrp'``."""


def test_objects_of_node_have_their_own_times_and_client() -> None:
    reader = parser()

    blocks = list(normalise(iter([(_OBJECTS, 2e9)]), "UTC"))
    found = [s for data, at in blocks for s in reader.feed(data, at)] + reader.flush()

    assert got(found)[-1] == "2"
    assert found[-1].at == 1795767216.603
    assert found[-1].member.client_id == "payments-1"


def test_quotes_and_inner_objects_are_kept() -> None:
    data = (
        b"{\n  level: 'info',\n  msg: \"it's\",\n  extra: {\n    groupId: 'pay'\n  },\n"
        b"  name: `a 'b' \"c\"`\n}\n"
    )

    assert join_inspected(data) == (
        b'{"level":"info","msg":"it\'s","extra":{"groupId":"pay"},"name":"a \'b\' \\"c\\""}\n'
    )


def test_other_objects_and_those_that_break_off_stay() -> None:
    for data in (b"{\n  a: 1\n}\n", b"{\n  message: 'x',\n", b'{\n  "message": "x"\n}\n'):
        assert join_inspected(data) == data


MEMBER = "p-1-069ffbb0-6b13-4ccf-a1d6-b32ff9ed4c76"
JOINED, REJOINING = "Consumer has joined the group", "The group is rebalancing, re-joining"
LEADER = "leaderId: 'x',\n{}isLeader: true,\n{}memberAssignment: {{ 'orders': [Array] }}"
REFUSED = "error: 'The group is rebalancing, so a rejoin is needed'"
ENTRIES = (
    (1, "ConsumerGroup", JOINED, LEADER),
    (2, "Runner", REJOINING, REFUSED),
    (5, "ConsumerGroup", JOINED, LEADER.replace("[Array]", "[ 0, 1 ]")),
)


def fields(second: int, more: str, indent: str) -> str:
    texts = (
        f"timestamp: '2026-11-27T11:26:0{second}.143Z'",
        "logger: 'kafkajs'",
        "groupId: 'pay'",
        f"memberId: '{MEMBER}'",
        more.format(indent, indent),
    )
    return ",\n".join(indent + text for text in texts)


def inspected(second: int, more: str) -> str:
    return f"{{\n{fields(second, more, '  ')}\n}}\n"


def entry(second: int, name: str, text: str, more: str) -> str:
    begin = (
        f"  namespace: '{name}',\n  level: 4,\n  label: 'INFO',\n  log: {{\n    message: '{text}'"
    )
    return f"{{\n{begin},\n{fields(second, more, '    ')}\n  }}\n}}\n"


LAYOUTS = {
    "log4js": "".join(
        f"[2026-11-27T11:26:0{at}.143] [INFO] kafka - [{name}] {text} {inspected(at, more)}"
        for at, name, text, more in ENTRIES
    ),
    "console.log of message and fields": "".join(
        f"[{name}] {text} {inspected(at, more)}" for at, name, text, more in ENTRIES
    ),
    "console.log of an entry": "".join(entry(*each) for each in ENTRIES),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_kafkajs_is_read_where_node_prints_its_fields(layout: str) -> None:
    reader = parser()

    blocks = list(normalise(iter([(LAYOUTS[layout].encode(), 2e9)]), "UTC"))
    found = [s for data, at in blocks for s in reader.feed(data, at)] + reader.flush()

    assert got(found) == ["sync", "1", "sync"]
    assert [round(each.at % 60, 3) for each in found if not is_report(each)] == [
        1.143,
        2.143,
        5.143,
    ]
    assert {each.member.member_id for each in found} == {MEMBER}


def test_object_behind_another_programs_message_stays() -> None:
    data = b"Server listens {\n  port: 8080,\n  host: '::'\n}\n"

    assert join_inspected(data) == data
