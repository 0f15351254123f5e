"""Consoles of Go and Node, as the real loggers print franz-go's and kafkajs's events."""

from pathlib import Path

import pytest

from tests.agent.sources.lines.test_posted_forms import replay

DEVSLOG = """\
[13:20:05]  INFO  join returned MemberIDRequired, rejoining with response's MemberID
  group    : pay
  member_id: c-1-adda6c44-875a-4470-af47-78f113691c9a
[13:20:08]  INFO  synced
  group   : pay
  assigned: t[0 1]
[13:20:08]  INFO  new group session begun
  group: pay
  added: t[0 1]
  lost : empty
[13:21:05]  INFO  heartbeat errored
  group: pay
E err  : 
    0: REBALANCE_IN_PROGRESS: The group is rebalancing, so a rejoin is needed.
[13:21:08]  INFO  synced
  group   : pay
  assigned: t[0 1]
[13:21:08]  INFO  new group session begun
  group: pay
  added: t[0 1]
  lost : empty
"""  # noqa: W291 - as devslog prints it
PTERM = """\
2026-11-20 13:20:05 INFO  join returned MemberIDRequired, rejoining with
                          response's MemberID
                          ├ group=pay
                          └ member_id=c-1-adda6c44-875a-4470-af47-78f113691c9a
2026-11-20 13:20:08 INFO  synced
                          ├ group=pay
                          └ assigned=t[0 1]
2026-11-20 13:20:08 INFO  new group session begun
                          ├ group=pay
                          ├ added=t[0 1]
                          └ lost=
2026-11-20 13:21:05 INFO  heartbeat errored
                          ├ group=pay
                          └ err=REBALANCE_IN_PROGRESS: The group is rebalancing,
                                so a rejoin is needed.
2026-11-20 13:21:08 INFO  synced
                          ├ group=pay
                          └ assigned=t[0 1]
2026-11-20 13:21:08 INFO  new group session begun
                          ├ group=pay
                          ├ added=t[0 1]
                          └ lost=
"""
GO_ZERO = """\
2026-11-20T13:20:05.123Z\t info \tjoin returned MemberIDRequired, rejoining with response's \
MemberID\tgroup=pay\tmember_id=c-1-adda6c44-875a-4470-af47-78f113691c9a\tcaller=gol/main.go:41
2026-11-20T13:20:08.123Z\t info \tsynced\tassigned=t[0 1]\tgroup=pay
2026-11-20T13:20:08.123Z\t info \tnew group session begun\tadded=t[0 1]\tlost=\tgroup=pay
2026-11-20T13:21:05.123Z\t info \tforced rejoin quitting heartbeat loop\twhy=rejoining because \
there are more topics to consume, our interests have changed\tcaller=gol/main.go:41
2026-11-20T13:21:08.123Z\t info \tsynced\tassigned=t[0 1]\tgroup=pay
2026-11-20T13:21:08.123Z\t info \tnew group session begun\tadded=t[0 1]\tlost=\tgroup=pay
"""
CONVERTED = """\
2026-11-20T13:20:05Z INF join returned MemberIDRequired, rejoining with response's MemberID \
group=pay member_id=c-1-adda6c44-875a-4470-af47-78f113691c9a
2026-11-20T13:20:08Z INF synced assigned="t[0 1]" group=pay
2026-11-20T13:20:08Z INF new group session begun added="t[0 1]" group=pay lost=
2026-11-20T13:21:05Z INF heartbeat errored err={"error":"REBALANCE_IN_PROGRESS: The group is \
rebalancing, so a rejoin is needed.","kind":"*kerr.Error","stack":null} group=pay
2026-11-20T13:21:08Z INF synced assigned="t[0 1]" group=pay
2026-11-20T13:21:08Z INF new group session begun added="t[0 1]" group=pay lost=
"""
CONSOLA = """\
\u2139 [ConsumerGroup] Consumer has joined the group { groupId: 'pay',          kafkajs 1:20:08 PM
  memberId: 'c-1-0a430293-348e-42f6-b619-5493af553227',
  leaderId: 'c-1-0a430293-348e-42f6-b619-5493af553227',
  isLeader: true,
  memberAssignment: { t: [ 0, 1 ] },
  groupProtocol: 'RoundRobinAssigner',
  duration: 567 }

 ERROR  [Connection] Response Heartbeat(key: 12) { broker: '127.0.0.1:29092',    1:21:05 PM
  clientId: 'c-1',
  error: 'The group is rebalancing, so a rejoin is needed',
  correlationId: 9,
  size: 10 }


 WARN  [Runner] The group is rebalancing, re-joining { groupId: 'pay',          kafkajs 1:21:05 PM
  memberId: 'c-1-0a430293-348e-42f6-b619-5493af553227',
  error: 'The group is rebalancing, so a rejoin is needed' }

\u2139 [ConsumerGroup] Consumer has joined the group { groupId: 'pay',          kafkajs 1:21:08 PM
  memberId: 'c-1-0a430293-348e-42f6-b619-5493af553227',
  leaderId: 'c-1-0a430293-348e-42f6-b619-5493af553227',
  isLeader: true,
  memberAssignment: { t: [ 0, 1 ] },
  groupProtocol: 'RoundRobinAssigner',
  duration: 567 }
"""
BOTH = [(2, "13:20:05"), (0, "13:20:08"), (1, "13:21:05"), (0, "13:21:08")]
CONSOLES = {
    "devslog": (DEVSLOG, BOTH),
    "devslog, with the date": (DEVSLOG.replace("[", "2026-11-20 ").replace("]  ", "  "), BOTH),
    "pterm": (PTERM, BOTH),
    "pterm, with colours": (PTERM.replace("├ group", "\x1b[90m├ \x1b[0mgroup"), BOTH),
    "slog's converters": (CONVERTED, BOTH),
    "go-zero": (GO_ZERO, [*BOTH[:2], (8, "13:21:05"), BOTH[3]]),
    "consola": (CONSOLA, BOTH[2:]),
}


@pytest.mark.parametrize("console", CONSOLES)
def test_console_is_read_with_its_fields_and_times(console: str, tmp_path: Path) -> None:
    text, wanted = CONSOLES[console]

    assert replay(text, tmp_path)[0] == wanted
