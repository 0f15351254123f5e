"""The index of members always agrees with the members, for any signals in any order."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from metrics.model.sample import Scope
from metrics.model.signals import Member, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus as Status
from metrics.tracking.consumer import Consumer, MemberView
from metrics.tracking.identity import MemberIndex
from metrics.tracking.status_track import StatusConfig, Track
from metrics.tracking.tracker import Tracker, TrackerState

STREAMS = ("a", "b")
SOURCES = (SourceKind.LOGS, SourceKind.WIRE, SourceKind.BROKER_LOG)
KINDS = (SignalKind.SEEN, SignalKind.RAISE, SignalKind.SYNC, SignalKind.LEAVE)

speakers = st.builds(
    Member,
    group=st.just("g"),
    client_id=st.sampled_from(("c1", "c1", "c1", "x", "c-StreamThread-1-consumer")),
    origin=st.sampled_from(STREAMS),
    cluster=st.sampled_from(("k", "k", "k", "")),
    group_instance_id=st.sampled_from((None, None, None, "i")),
    member_id=st.sampled_from((None, "x", "y")),
)


def named(entries: list[Consumer]) -> list[tuple[str, ...]]:
    return sorted(entry.track.key for entry in entries)


class Index(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.tracker = Tracker(StatusConfig(members=4, forget_after_s=20.0))

    @property
    def members(self) -> MemberIndex:
        return self.tracker._members

    @rule(
        member=speakers,
        source=st.sampled_from(SOURCES),
        kind=st.sampled_from(KINDS),
        after_s=st.sampled_from((0.0, 1.0, 9.0)),
    )
    def hear(self, member: Member, source: SourceKind, kind: SignalKind, after_s: float) -> None:
        self.now += after_s
        status = Status.NEW_MEMBER if kind is SignalKind.RAISE else Status.NONE
        self.tracker.apply(
            Signal(kind=kind, at=self.now, member=member, source=source, status=status)
        )

    @rule(stream=st.sampled_from(STREAMS))
    def detach(self, stream: str) -> None:
        self.tracker.detach(stream, self.now)
        assert not any(
            voice.attached
            for entry in self.members
            for voice in entry.views
            if voice.member.origin == stream
        )

    @rule(after_s=st.sampled_from((0.0, 5.0, 30.0, 700.0)))
    def advance(self, after_s: float) -> None:
        self.now += after_s
        self.tracker.advance(self.now)

    @rule()
    def restart(self) -> None:
        state = self.tracker.state()
        self.tracker = Tracker(StatusConfig(members=4, forget_after_s=20.0), state=state)

    @invariant()
    def each_is_kept_under_its_key(self) -> None:
        assert list(self.members._by_key) == [entry.track.key for entry in self.members]
        assert len(self.members) <= 4

    @invariant()
    def a_stream_leads_to_all_that_it_tells_of(self) -> None:
        for stream in STREAMS:
            got = [e for e in self.members if any(v.member.origin == stream for v in e.views)]
            assert named(self.members.of_origin(stream)) == named(got)

    @invariant()
    def a_name_leads_to_all_that_have_it(self) -> None:
        for name in ("c1", "x", "i"):
            got = [
                entry
                for entry in self.members
                if name in {entry.track.member.client_id, entry.track.member.group_instance_id}
            ]
            assert named([*self.members._by_name.get(("g", name), ())]) == named(got)

    @invariant()
    def an_id_leads_to_one_that_has_it(self) -> None:
        for (_, member_id), entry in self.members._by_id.items():
            assert member_id in entry.member_ids
            assert any(entry is each for each in self.members)

    def teardown(self) -> None:
        self.tracker.advance(self.now + 10_000.0)
        for stream in STREAMS:
            self.tracker.detach(stream, self.now + 10_000.0)
        self.tracker.advance(self.now + 20_000.0)
        assert self.tracker.state() == TrackerState(
            groups=self.tracker.state().groups, counts=self.tracker.state().counts
        )
        assert not any((self.members._by_view, self.members._by_name, self.members._by_id))


Index.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, report_multiple_bugs=False
)
TestIndex = Index.TestCase


def test_of_two_views_of_one_source_that_of_the_name_is_moved() -> None:
    """A broker's log names a member by its client id, and before by its member id."""
    index = Index()
    logs, broker = SourceKind.LOGS, SourceKind.BROKER_LOG
    thread = "c-StreamThread-1-consumer"
    for source, client_id, origin, instance_id, member_id in (
        (logs, thread, "a", None, "x"),
        (logs, "c1", "a", None, None),
        (broker, "x", "a", None, None),
        (logs, "c1", "b", None, "x"),
        (logs, "c1", "a", "i", None),
        (broker, "x", "a", None, "x"),
        (logs, thread, "a", None, None),
        (broker, "c1", "a", None, None),
        (broker, "x", "a", None, None),
        (logs, "c1", "b", None, "x"),
        (broker, "x", "a", None, "y"),
    ):
        member = Member(
            group="g",
            client_id=client_id,
            origin=origin,
            cluster="k",
            group_instance_id=instance_id,
            member_id=member_id,
        )
        index.hear(member, source, SignalKind.SEEN, 0.0)

    index.a_stream_leads_to_all_that_it_tells_of()
    index.teardown()


@pytest.mark.parametrize(("client_id", "found"), [("x", "x"), ("c1", "c1"), ("y", "x")])
def test_view_of_a_signal_is_that_of_its_name_or_the_first(client_id: str, found: str) -> None:
    def member(name: str) -> Member:
        return Member(group="g", client_id=name, origin="a", cluster="k")

    broker = SourceKind.BROKER_LOG
    track = Track(
        scope=Scope.CONSUMER,
        key=("k", "g", "x", "a"),
        member=member("x"),
        client_id="x",
        app="g",
        source=broker,
        origin="a",
        since_at=0.0,
        last_at=0.0,
        confirmed_at=0.0,
    )
    views = [MemberView(source=broker, member=member(name)) for name in ("x", "c1")]
    signal = Signal(kind=SignalKind.SEEN, at=0.0, member=member(client_id), source=broker)

    view = Consumer(track=track, views=views).view_of(signal)

    assert view is not None
    assert view.member.client_id == found
