"""The end of a group's last members is one incident of its day."""

import msgspec
import pytest

from aggregation.incidents.model import IncidentKind
from metrics.model.sample import Sample, SampleKind, format_time
from metrics.model.status import RebalanceStatus as S
from tests.aggregation.spark.histories import DAY_S, START_AT, Client, rebalance
from tests.aggregation.spark.rollups.test_daily_incidents import alive, by_days, trio


def silence(member: Client, since: float, at: float) -> Sample:
    return msgspec.structs.replace(
        member.written[0],
        id=f"silent-{member.client_id}",
        kind=SampleKind.CHANGE,
        ts=format_time(at),
        seq=10_000,
        from_=None,
        to=None,
        episode=None,
        subject="member",
        field="silent.ms",
        after=str(int((at - since) * 1000)),
    )


@pytest.mark.parametrize("since", [DAY_S - 1_000.0, DAY_S - 30.0, DAY_S + 1_000.0])
def test_a_killed_group_has_expired_once_wherever_midnight_falls(since: float) -> None:
    members = trio()
    rebalance(members, START_AT + 100, S.NEW_MEMBER, 3.0)
    ends = [silence(each, START_AT + since, START_AT + since + 70.0) for each in members]
    other = Client(group="other", client_id="c", host="pod")
    rebalance([other], START_AT + 100, S.NEW_MEMBER, 3.0)
    records = [record for each in members for record in each.written]

    found = by_days([*records, *ends, *alive([other], 4)])

    expired = [each for each in found if each.kind is IncidentKind.SESSION_EXPIRED]
    assert [format_time(each.started_at) for each in expired] == [
        format_time(START_AT + since + 45.0)
    ]
    assert {each.client_id for each in expired[0].members} == {"c-0", "c-1", "c-2"}
