"""Records of incidents that are final, for spool, topic and tables.

Source: incidents.md section 5.
"""

from dataclasses import replace

import msgspec

from aggregation.incidents.answers import IncidentAnswer, answer_of
from aggregation.incidents.model import Incident
from metrics.model.sample import (
    MALFORMED,
    Sample,
    SampleKind,
    Scope,
    clip_reason,
    decode,
    digest,
    format_time,
    normalize_time,
)
from metrics.model.status import RebalanceStatus

_EACH_END_MAX = 500
"""Rebalances at each end of a record: a loop of Connect's workers has thousands, and a Kafka topic
takes a message of 1 MiB."""


class IncidentRecord(Sample, frozen=True, kw_only=True):
    """An incident of a group, from hub and standalone: written once, when it is final.

    The row's own columns describe the root cause: ``ts`` is the start of the incident, ``to`` the
    status of its kind, or 0 if the kind has no status.
    """

    ended_ts: str
    incident: IncidentAnswer
    """The same object as in `explain --output json`, as of ten minutes after its end. Partitions
    that nobody reads later still cost more, as those of a group's only reader that died: the latest
    cost stands in `explain`, the API and the report's table `incidents`, under the same id."""


_decoder = msgspec.json.Decoder(IncidentRecord)


def make_record(incident: Incident, latest: Sample) -> IncidentRecord:
    """Return a final incident as a record; ``latest`` is a record of its group.

    Its id is the incident's alone.
    """
    answer = answer_of(incident)
    if len(answer.rebalances) > 2 * _EACH_END_MAX:
        ends = answer.rebalances[:_EACH_END_MAX] + answer.rebalances[-_EACH_END_MAX:]
        answer = replace(answer, rebalances=ends)
    status = incident.kind.status or RebalanceStatus.NONE
    member = next(iter(incident.members), None)
    generations = [each for span in incident.rebalances for each in span.generations]
    return IncidentRecord(
        id=digest(Scope.GROUP, *incident.ref, SampleKind.INCIDENT, incident.id),
        kind=SampleKind.INCIDENT,
        ts=answer.started_at,
        cluster=incident.ref.cluster,
        app=latest.app,
        group=incident.ref.group,
        group_type=incident.group_type,
        protocol_type=latest.protocol_type,
        scope=Scope.GROUP,
        client_id=None if member is None else member.client_id,
        group_instance_id=None if member is None else member.group_instance_id,
        host="" if member is None else member.host,
        to=status.value,
        status=answer.status,
        reason=clip_reason(incident.reason),
        generation=max(generations, default=None),
        lag=incident.cost.lag,
        source="incidents",
        ended_ts=answer.ended_at or format_time(incident.started_at),
        incident=answer,
    )


def decode_any(line: bytes) -> Sample:
    """Return the record of a line, with an incident's own fields if this version can read them.

    Raises:
        ValueError: the line is no record; the text names the reason.

    """
    sample = decode(line)
    if sample.kind is not SampleKind.INCIDENT:
        return sample
    try:
        record = _decoder.decode(line)
        ended_ts = normalize_time(record.ended_ts)
    except MALFORMED:
        return sample
    times = {"ts": sample.ts, "joined_ts": sample.joined_ts, "ended_ts": ended_ts}
    return msgspec.structs.replace(record, **times)
