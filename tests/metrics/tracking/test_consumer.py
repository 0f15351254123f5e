from metrics.model.sample import Scope
from metrics.model.signals import Member, Signal, SignalKind, SourceKind
from metrics.tracking.consumer import Consumer
from metrics.tracking.status_track import Track

NOW = 1_000.0


def signal(stream: str, source: SourceKind = SourceKind.LOGS, host: str = "") -> Signal:
    member = Member(group="g", client_id="m", origin=stream, host=host)
    return Signal(kind=SignalKind.SEEN, at=NOW, member=member, source=source)


def consumer(*streams: str) -> Consumer:
    """A consumer that these have told of."""
    first = signal("first")
    made = Consumer(
        track=Track(
            scope=Scope.CONSUMER,
            key=("m",),
            member=first.member,
            client_id="m",
            app="g",
            source=first.source,
            origin="first",
            since_at=NOW,
            last_at=NOW,
            confirmed_at=NOW,
        )
    )
    for stream in streams:
        made.record_view(signal(stream))
    return made


def heard(made: Consumer) -> list[str]:
    return [voice.member.origin for voice in made.views]


def test_four_voices_are_kept() -> None:
    assert heard(consumer("a", "b", "c", "d")) == ["a", "b", "c", "d"]


def test_of_more_the_first_that_has_gone_goes() -> None:
    made = consumer("a", "b", "c", "d")
    made.views[1].attached = made.views[2].attached = False

    made.record_view(signal("e"))

    assert heard(made) == ["a", "c", "d", "e"]


def test_else_the_first_goes() -> None:
    assert heard(consumer("a", "b", "c", "d", "e")) == ["b", "c", "d", "e"]


def test_what_two_that_are_one_have_held_is_held() -> None:
    one, other = consumer("a"), consumer("b")
    one.pending, other.pending = [signal("a")], [signal("b")]

    one.absorb(other)

    assert [each.member.origin for each in one.pending] == ["a", "b"]


def test_what_nobody_knows_stays_as_the_best_voice_has_it() -> None:
    made = consumer("a")
    made.record_view(signal("b", SourceKind.WIRE))

    assert made.merge_views().host == ""
    made.record_view(signal("b", SourceKind.WIRE, host="h"))
    assert made.merge_views().host == "h"
