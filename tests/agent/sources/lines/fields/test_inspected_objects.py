import pytest

from agent.sources.lines.fields.inspected_objects import join_inspected
from agent.sources.lines.whole_files.exports import normalise
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


def compact(second: int, more: str) -> str:
    """Return an object with ``compact``, as `util.inspect` writes it."""
    return inspected(second, more).replace("{\n  ", "{ ", 1).replace("\n}\n", " }\n")


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
    "consola, and Node before 12": "".join(
        f"[info] [{name}] {text} {compact(at, more)}" for at, name, text, more in ENTRIES
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


def live(*pieces: bytes) -> list[tuple[str, float, str | None]]:
    """Return the signals of a growing log: the kind, seconds and member of each."""
    reader = parser()
    found = [signal for piece in pieces for signal in reader.feed(piece, 2e9)] + reader.flush()
    shown = [each for each in found if not is_report(each)]
    return [(got([each])[0], round(each.at % 60, 3), each.member.member_id) for each in shown]


WANTED = [("sync", 1.143, MEMBER), ("1", 2.143, MEMBER), ("sync", 5.143, MEMBER)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_kafkajs_is_read_as_node_prints_it(layout: str) -> None:
    assert live(LAYOUTS[layout].encode()) == WANTED


AT = "2026-11-27T11:27:00.000000000Z "


@pytest.mark.parametrize(
    "prefix",
    ["orders-1  | ", f"{AT}stdout F ", AT, f"orders-1  | {AT}", f"[pod/orders-1-x7k2p/app] {AT}"],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_kafkajs_is_read_as_node_prints_it_in_a_container(layout: str, prefix: str) -> None:
    lines = LAYOUTS[layout].splitlines(keepends=True)

    found = live("".join(prefix + line for line in lines).encode())

    assert [(word, member) for word, _, member in found] == [(w, m) for w, _, m in WANTED]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_objects_of_two_containers_may_interleave(layout: str) -> None:
    lines = LAYOUTS[layout].splitlines(keepends=True)
    text = "".join(f"a-1  | {each}b-1  | {each.replace('p-1', 'p-2')}" for each in lines)

    assert [word for word, *_ in live(text.encode())] == [word for word, *_ in WANTED for _ in "ab"]


@pytest.mark.parametrize("size", [1, 7, 100, 1000])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_pieces_of_what_node_prints_show_the_same_rebalance(layout: str, size: int) -> None:
    data = LAYOUTS[layout].encode()

    found = live(*(data[at : at + size] for at in range(0, len(data), size)))

    assert list(dict.fromkeys(found)) == WANTED


def test_objects_of_node_have_their_own_times_as_they_come() -> None:
    assert live(_OBJECTS)[-1] == ("2", 36.603, None)


def test_object_behind_another_programs_message_stays() -> None:
    data = b"Server listens {\n  port: 8080,\n  host: '::'\n}\n"

    assert join_inspected(data) == data
