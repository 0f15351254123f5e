"""Records that agents never write together: the hub takes them, and each analysis has an end.

Names and times are few, so that many records are equal in all but one field. What may be None
beside a text has no order.
"""

from operator import attrgetter
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agent.hub.push_receiver import PushReceiver, with_spool
from agent.hub.recent_records import RecentRecords
from aggregation.explain.explanation import explanations
from aggregation.incidents.answers import answer_of
from aggregation.incidents.incidents import analyze
from metrics.model.change_fields import GROUP_FIELDS, MEMBER_FIELDS
from metrics.model.sample import UNEXPLAINED, Outcome, Sample, SampleKind, Scope, encode
from metrics.model.signals import SourceKind
from metrics.tracking.status_track import StatusConfig

NOW = 1_795_000_000.0  # 2026-11-18T11:06:40Z
_USUAL = ("2026-11-18T10:00:00.000000Z", "2026-11-18T10:00:03.000000Z")
_TIMES = (
    *_USUAL * 4,
    *("2026-11-18T12:00:03+02:00", "2026-11-18T10:30:00.5z", "2026-11-19T11:00:00Z"),
    *("1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59"),
    *("20251118T100000Z", "2025-W47-2T10:00:00Z"),
)
_TEXTS = ("", "t-0", "t:0-3", "300000", "-1", "9" * 30, "\ufffe", None)
_FIELDS = {
    "kind": st.sampled_from([*[SampleKind.TRANSITION] * 9, *SampleKind]),
    "ts": st.sampled_from(_TIMES),
    "agent": st.sampled_from(["a", "b"]),
    "cluster": st.just("k"),
    "app": st.just("g"),
    "group": st.just("g"),
    "group_type": st.sampled_from(["classic", "consumer", "streams"]),
    "scope": st.sampled_from([*[Scope.CONSUMER] * 5, *Scope]),
    "client_id": st.sampled_from(["c", "c", "c", "s-StreamThread-1-consumer", None]),
    "member_id": st.sampled_from(["m-1", "m-2", None]),
    "group_instance_id": st.sampled_from(["i", None]),
    "host": st.just("h"),
    "from_": st.sampled_from([0, 1, None]),
    "to": st.sampled_from([0, 0, 0, 1, 6, 6, 10, None]),
    "reason": st.sampled_from(["closed", None, None, UNEXPLAINED, "rebalance delay: 3000"]),
    "generation": st.sampled_from([1, 2, 3, 2**63 - 1, None]),
    "episode": st.sampled_from(["e-1", "e-2", None]),
    "outcome": st.sampled_from([Outcome.SYNCED, *Outcome, None]),
    "joined_ts": st.sampled_from([*_TIMES, *[None] * 16]),
    "gained": st.sampled_from([1, -(2**63), None]),
    "lag": st.sampled_from([0, 2**63 - 1, None]),
    "subject": st.sampled_from(["member", "group", None]),
    "field": st.sampled_from([*MEMBER_FIELDS, *GROUP_FIELDS, None]),
    "before": st.sampled_from(_TEXTS),
    "after": st.sampled_from(_TEXTS),
    "source": st.sampled_from([SourceKind.BROKER_LOG, *SourceKind]).map(str),
}
_RECORDS = st.lists(st.fixed_dictionaries(_FIELDS), min_size=1, max_size=30)


def lines_of(spool: str, found: list[dict[str, Any]]) -> bytes:
    return b"".join(
        encode(Sample(id=f"{spool}-{number}", seq=number, **fields))
        for number, fields in enumerate(found, start=1)
    )


@given(_RECORDS, _RECORDS)
def test_any_records_are_taken_and_analyzed(
    ones: list[dict[str, Any]], others: list[dict[str, Any]]
) -> None:
    receiver = PushReceiver("", StatusConfig())
    recent = RecentRecords(now=NOW, spans_of=lambda: receiver.clock_spans)
    for spool, found in (("one", ones), ("other", others)):
        taken = receiver.apply_lines(spool, lines_of(spool, found), NOW)
        recent.add([with_spool(record, spool) for record in taken], NOW)
        assert receiver.last_seq(spool) == len(found)

    analysis = recent.analyze(recent.records(), NOW)
    answers = [answer_of(incident) for incident in analysis.incidents]
    pages = explanations(analysis.rebalances, 20, None, analysis.incidents)
    assert msgspec.json.decode(msgspec.json.encode([answers, pages]))
    kept = msgspec.json.decode(msgspec.json.encode(receiver.checkpoint()))
    assert PushReceiver("", StatusConfig(), kept).health.damaged == []


@given(_RECORDS, _RECORDS)
def test_no_answer_depends_on_the_order_in_which_records_arrived(
    ones: list[dict[str, Any]], others: list[dict[str, Any]]
) -> None:
    """A hub that starts again reads its spool by time; before, agents took turns."""
    receiver = PushReceiver("", StatusConfig())
    arrived = [
        with_spool(record, spool)
        for spool, found in (("one", ones), ("other", others))
        for record in receiver.apply_lines(spool, lines_of(spool, found), NOW)
    ]
    orders = arrived, sorted(arrived, key=attrgetter("ts"))

    incidents = [analyze(records, now=NOW).incidents for records in orders]

    answers = {msgspec.json.encode([*map(answer_of, found)]) for found in incidents}
    assert len(answers) == 1
