from agent.sources.lines.exports import normalise
from agent.sources.lines.inspected_objects import join_inspected
from tests.agent.sources.lines.spoken import got, parser

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
        b'{"level":"info","msg":"it\'s","extra":"{\\n    groupId: \'pay\'\\n  }",'
        b'"name":"a \'b\' \\"c\\""}\n'
    )


def test_other_objects_and_those_that_break_off_stay() -> None:
    for data in (b"{\n  a: 1\n}\n", b"{\n  message: 'x',\n", b'{\n  "message": "x"\n}\n'):
        assert join_inspected(data) == data
