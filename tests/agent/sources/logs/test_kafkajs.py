"""kafkajs, whose log shows no join of a member, and no generation."""

import json

from tests.agent.sources.lines.spoken import ARRIVAL_AT, got, parser


def line(second: int, logger: str, message: str, **fields: object) -> bytes:
    entry = {
        "level": "INFO",
        "timestamp": f"2026-11-27T11:20:{second:02}.000Z",
        "logger": "kafkajs",
        "message": f"[{logger}] {message}",
        "groupId": "pay",
    }
    return json.dumps(entry | fields).encode() + b"\n"


def life(second: int, member: str) -> bytes:
    """Return the log of a process that joins, rebalances and ends."""
    joined = {"memberId": member, "leaderId": member, "isLeader": True, "memberAssignment": {}}
    asked = "The group is rebalancing, so a rejoin is needed"
    return (
        line(second, "ConsumerGroup", "Consumer has joined the group", **joined)
        + line(
            second + 4,
            "Runner",
            "The group is rebalancing, re-joining",
            memberId=member,
            error=asked,
        )
        + line(second + 7, "ConsumerGroup", "Consumer has joined the group", **joined)
        + line(second + 9, "Consumer", "Stopped")
    )


def test_process_that_starts_again_in_the_same_file_is_read() -> None:
    """The member that has left is out; what joins is another one."""
    reader = parser()
    members = [f"pay-1-{number}1111111-2222-3333-4444-555555555555" for number in (1, 2)]

    log = life(10, members[0]) + life(30, members[1])
    found = reader.feed(log, ARRIVAL_AT) + reader.flush()

    assert got(found) == ["sync", "1", "sync", "leave"] * 2
    assert {each.member.member_id for each in found} == set(members)
