"""A group's rebalance as a trace: the group, its members as children, their causes as events.

Ids derive from the episode's own id, so another hub or a restart yields the same trace, and an
exemplar's episode leads to it.
"""

from collections.abc import Iterator
from functools import partial

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags
from opentelemetry.util.types import AttributeValue

from aggregation.rebalances.counter import UNKNOWN
from aggregation.rebalances.rebalances import ExplainedRebalance
from aggregation.rebalances.segments import MemberRef, Segment, Step
from metrics.exporters.otel import ATTRIBUTES, SCOPE, trace_of
from metrics.model.names import label_text, printable
from metrics.model.sample import digest

_SCOPE = InstrumentationScope(SCOPE)
OptionalAttributes = dict[str, AttributeValue | None]


def spans(episode: ExplainedRebalance, resource: Resource) -> Iterator[ReadableSpan]:
    """Return the root and one span for each member's part in it."""
    # built directly: a tracer would assign its own ids, and needs events as they happen
    make = partial(
        ReadableSpan, resource=resource, kind=SpanKind.INTERNAL, instrumentation_scope=_SCOPE
    )
    round_ = episode.round
    root = _context(round_.id)
    yield make(
        name=printable(f"rebalance {round_.ref.group}"),
        context=root,
        attributes=_drop_unknown(_group_attributes(episode)),
        links=[Link(_context(episode.caused_by))] if episode.caused_by else (),
        start_time=_ns(round_.started_at),
        end_time=_ns(round_.ended_at),
    )
    for number, piece in enumerate(round_.segments):
        if piece.is_note:
            continue
        yield make(
            name=printable(piece.member.client_id),
            context=_child(root, round_.id, number),
            parent=root,
            attributes=_drop_unknown(_member_attributes(piece, episode)),
            events=[_event(step) for step in piece.steps],
            start_time=_ns(piece.started_at),
            end_time=_ns(piece.ended_at),
        )


def _group_attributes(episode: ExplainedRebalance) -> OptionalAttributes:
    trigger, slow = episode.trigger, episode.straggler
    return {
        **_group(episode),
        "kafka.rebalance.episode": episode.round.id,
        "kafka.rebalance.status": UNKNOWN if trigger.code is None else trigger.code.label,
        "kafka.rebalance.peak": episode.highest.label,
        "kafka.rebalance.trigger.client.id": _name(trigger.member),
        "kafka.rebalance.trigger.reason": trigger.reason or trigger.missing,
        "kafka.rebalance.trigger.certainty": trigger.certainty.value,
        "kafka.rebalance.straggler.client.id": _name(None if slow is None else slow.member),
        "kafka.rebalance.member_time": episode.member_seconds,
        "kafka.group.generation": max(episode.round.generations, default=None),
    }


def _member_attributes(piece: Segment, episode: ExplainedRebalance) -> OptionalAttributes:
    return {
        **_group(episode),
        ATTRIBUTES["client_id"]: piece.member.client_id,
        ATTRIBUTES["host"]: piece.member.host,
        ATTRIBUTES["member_id"]: piece.member_id,
        ATTRIBUTES["group_instance_id"]: piece.member.group_instance_id,
        "kafka.rebalance.scope": piece.scope.value,
        "kafka.rebalance.outcome": "left" if piece.is_exit else piece.outcome,
    }


def _group(episode: ExplainedRebalance) -> OptionalAttributes:
    round_ = episode.round
    return {
        "messaging.system": "kafka",
        ATTRIBUTES["group"]: round_.ref.group,
        ATTRIBUTES["kafka_cluster"]: round_.ref.cluster,
        ATTRIBUTES["group_type"]: round_.group_type,
        ATTRIBUTES["app"]: round_.app,
    }


def _event(step: Step) -> Event:
    attributes: OptionalAttributes = {
        "kafka.rebalance.status_code": step.code.value,
        "kafka.rebalance.status_code_before": step.before.value,
        "kafka.rebalance.reason": step.reason,
        "kafka.rebalance.masked": step.masked or None,
        "rebalance_agent.source": step.source,
    }
    return Event(step.code.label, _drop_unknown(attributes), timestamp=_ns(step.at))


def _drop_unknown(attributes: OptionalAttributes) -> dict[str, AttributeValue]:
    """Return the attributes with a value."""
    return {
        name: label_text(value) if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None and value != ""
    }


def _name(member: MemberRef | None) -> str | None:
    return None if member is None else member.client_id


def _child(root: SpanContext, episode: str, number: int) -> SpanContext:
    span_id = int(digest(episode, "member", number)[:16], 16)
    return SpanContext(root.trace_id, span_id, is_remote=False, trace_flags=root.trace_flags)


def _context(episode: str) -> SpanContext:
    trace_id, span_id = trace_of(episode)
    return SpanContext(
        trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )


def _ns(at: float) -> int:
    return int(at * 1e9)
