"""The table of verdicts: each of its rules decides, and its text agrees with it."""

import ast
import re
from collections.abc import Container
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

import aggregation
import metrics
from metrics.model.signals import Signal, SignalKind, SourceKind
from metrics.tracking import source_traits
from metrics.tracking.consumer import NEUTRAL_KINDS, Consumer
from metrics.tracking.source_traits import TRAITS
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from metrics.tracking.verdicts import RULES, Case, MemberState, Verdict, judge
from tests.metrics.given import C1, C2, demand, failed, left, raised, run, seen, signal

WIRE, BROKER = SourceKind.WIRE, SourceKind.BROKER_LOG
LOG = replace(C1, member_id="c1-u")
ADDRESS = replace(LOG, origin="10.0.0.5:40000")
AT_BROKER = replace(LOG, origin="server.log", host="")
NEW_AT_BROKER = replace(AT_BROKER, client_id="c9", member_id="c9-u")

SECOND_ID = replace(LOG, member_id="c1-v")
LOG_SEEN = seen(1.0, LOG)
WIRE_LEFT = signal(SignalKind.LEAVE, 10.0, ADDRESS, source=WIRE)
SECOND_LEAVE = signal(SignalKind.LEAVE, 15.0, AT_BROKER, source=BROKER, reason="closed")
AWAITED = [seen(1.0, C2), signal(SignalKind.JOIN, 9.0, NEW_AT_BROKER, source=BROKER)]
NOT_HELD = frozenset({Verdict.HOLD, Verdict.RELEASE})


def end(at: float, generation: int, source: SourceKind = WIRE) -> Signal:
    member = {WIRE: ADDRESS, BROKER: AT_BROKER}.get(source, LOG)
    return signal(SignalKind.SYNC, at, member, source=source, generation=generation)


def wire_raised(at: float, status: int = 1) -> Signal:
    return raised(status, at, ADDRESS, source=WIRE)


THREAD, ON_WIRE, NEW_THREAD = (
    replace(each, client_id=f"s-StreamThread-{n}-consumer", member_id=f"u{n}")
    for n, each in ((1, LOG), (1, ADDRESS), (2, LOG))
)
HELD_END = [
    seen(1.0, THREAD),
    raised(1, 10.0, ON_WIRE, source=WIRE),
    signal(SignalKind.SYNC, 10.4, THREAD, generation=5),
    seen(10.5, NEW_THREAD),
]
HELD_CAUSE = [*HELD_END, raised(2, 10.6, NEW_THREAD)]

# for each rule: the signals before, the signal that it decides, the verdicts passed over
HISTORIES: list[tuple[list[Signal], Signal, Container[Verdict]]] = [
    (AWAITED, raised(2, 10.0, NEW_AT_BROKER, source=BROKER), ()),
    ([LOG_SEEN, WIRE_LEFT], signal(SignalKind.NOTE, 15.1, ADDRESS, source=WIRE), ()),
    ([LOG_SEEN, WIRE_LEFT], signal(SignalKind.NOTE, 12.0, ADDRESS, source=WIRE), ()),
    (HELD_CAUSE, signal(SignalKind.JOIN, 10.7, NEW_THREAD), ()),
    ([LOG_SEEN], signal(SignalKind.NOTE, 10.0, LOG), ()),
    ([LOG_SEEN, seen(2.0, SECOND_ID)], raised(3, 10.0, AT_BROKER, source=BROKER), ()),
    ([LOG_SEEN], signal(SignalKind.FAIL, 10.0, AT_BROKER, source=BROKER), ()),
    ([LOG_SEEN, raised(1, 9.0, LOG), WIRE_LEFT], raised(6, 12.1, LOG), ()),
    ([LOG_SEEN, raised(1, 9.0, LOG), WIRE_LEFT], wire_raised(12.1), ()),
    (HELD_END, raised(2, 10.6, NEW_THREAD), ()),
    ([LOG_SEEN], WIRE_LEFT, ()),
    ([LOG_SEEN], end(12.0, 5, BROKER), ()),
    ([LOG_SEEN, wire_raised(10.0)], signal(SignalKind.SYNC, 10.1, LOG), ()),
    ([LOG_SEEN, wire_raised(10.0)], raised(1, 10.1, LOG), ()),
    ([left(10.0, LOG, "closed")], SECOND_LEAVE, ()),
    ([LOG_SEEN, wire_raised(10.0)], failed(9.0, LOG), ()),
    ([LOG_SEEN, end(12.0, 5)], raised(0, 11.0, LOG, layer=demand(10, 11.0)), ()),
    ([LOG_SEEN, wire_raised(10.0), end(12.0, 5), wire_raised(13.0)], raised(3, 11.0, LOG), ()),
    ([LOG_SEEN, wire_raised(11.5), end(12.0, 5)], raised(3, 11.0, LOG), ()),
    ([LOG_SEEN, end(12.0, 5)], raised(3, 11.0, LOG), ()),
    (
        [end(5.0, 4, SourceKind.LOGS), raised(1, 10.0, LOG), end(12.0, 5)],
        raised(6, 12.5, LOG),
        (),
    ),
    ([left(10.0, LOG, "closed")], wire_raised(11.0, 3), ()),
    (
        [end(5.0, 4, SourceKind.LOGS), raised(1, 10.0, LOG)],
        end(12.0, 5, BROKER),
        NOT_HELD,
    ),
    ([LOG_SEEN], raised(1, 10.0, LOG), ()),
]


def members_after(signals: list[Signal]) -> list[Consumer]:
    tracker = Tracker(StatusConfig())
    run(tracker, *signals)
    return tracker.state().consumers


def member_after(signals: list[Signal]) -> Consumer:
    return members_after(signals)[-1]


def case_of(number: int) -> tuple[Case, Container[Verdict]]:
    before, event, passed_over = HISTORIES[number]
    *others, member = members_after(before)
    siblings = [each for each in others if member.instance and each.instance == member.instance]
    return Case(member, event, TRAITS[event.source], siblings), passed_over


@pytest.mark.parametrize("number", range(len(RULES)))
def test_each_rule_decides_a_history(number: int) -> None:
    case, passed_over = case_of(number)
    applicable = (
        position
        for position, rule in enumerate(RULES)
        if case.state in rule.states
        and case.signal.kind in rule.kinds
        and rule.decision.verdict not in passed_over
        and rule.applies(case)
    )

    assert next(applicable) == number
    assert judge(*case[:3], passed_over, case.siblings) == RULES[number].decision


@pytest.mark.parametrize("number", range(len(RULES)))
def test_judging_changes_nothing(number: int) -> None:
    case, passed_over = case_of(number)
    before = msgspec.json.encode(case.consumer)

    judge(*case[:3], passed_over, case.siblings)

    assert msgspec.json.encode(case.consumer) == before


@pytest.mark.parametrize("state", MemberState)
@pytest.mark.parametrize("kind", SignalKind)
def test_any_signal_in_any_state_has_a_rule_without_condition(
    state: MemberState, kind: SignalKind
) -> None:
    rules = [rule for rule in RULES if state in rule.states and kind in rule.kinds]

    assert any(rule.applies is Case.holds_always for rule in rules)


def test_states_are_reached() -> None:
    awaited = member_after(AWAITED)
    lost = Tracker(StatusConfig(stale_after_s=1.0))
    run(lost, raised(1, 10.0, LOG))
    lost.advance(20.0)
    members = {
        MemberState.AWAITED: awaited,
        MemberState.STABLE: member_after([LOG_SEEN]),
        MemberState.REBALANCING: member_after([raised(1, 10.0, LOG)]),
        MemberState.LEFT: member_after([left(10.0, LOG)]),
        MemberState.LOST: lost.state().consumers[0],
    }

    assert {s: Case(m, LOG_SEEN, TRAITS[WIRE]).state for s, m in members.items()} == {
        state: state for state in MemberState
    }


def test_the_docstring_is_the_table() -> None:
    rows = [re.split(r"\s{2,}", line.strip()) for line in (judge.__doc__ or "").splitlines()]
    table = [
        row for row in rows if row[0] == "any" or row[0].split(",")[0] in MemberState.__members__
    ]

    assert [(row[0], row[1], row[-1]) for row in table] == [
        (_states(rule.states), _kinds(rule.kinds), _verdict(number))
        for number, rule in enumerate(RULES)
    ]


def _states(states: Container[MemberState]) -> str:
    names = [state.name for state in MemberState if state in states]
    return "any" if len(names) == len(MemberState) else ", ".join(names)


def _kinds(kinds: Container[SignalKind]) -> str:
    names = {kind for kind in SignalKind if kind in kinds}
    words = {
        frozenset(SignalKind): "any",
        frozenset(NEUTRAL_KINDS): "neutral",
        frozenset(SignalKind) - NEUTRAL_KINDS: "moving",
        frozenset(SignalKind) - NEUTRAL_KINDS - {SignalKind.RAISE}: "not RAISE",
    }
    in_order = (kind.name for kind in SignalKind if kind in names)
    return words.get(frozenset(names)) or ", ".join(in_order)


def _verdict(number: int) -> str:
    decision = RULES[number].decision
    return decision.verdict.name + (", late" if decision.is_late else "")


def _names_source_kind(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Attribute) else None
    return isinstance(value, ast.Name) and value.id == SourceKind.__name__


def test_only_the_table_of_traits_names_a_kind_of_source() -> None:
    packages = [Path(p) for module in (metrics, aggregation) for p in module.__path__]

    modules = [path for package in packages for path in package.rglob("*.py")]
    policies = [
        p for p in modules if any(map(_names_source_kind, ast.walk(ast.parse(p.read_text()))))
    ]

    assert policies == [Path(source_traits.__file__)]
