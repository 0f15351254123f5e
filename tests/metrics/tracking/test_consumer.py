from metrics.model.sample import Scope
from metrics.model.signals import Member, Signal, SignalKind, SourceKind
from metrics.tracking.consumer import Consumer
from metrics.tracking.status_track import Track

NOW = 1_000.0


def signal(stream: str, source: SourceKind = SourceKind.LOGS, host: str = "") -> Signal:
    member = Member(group="g", client_id="m", stream=stream, host=host)
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
            stream="first",
            since_at=NOW,
            last_at=NOW,
            confirmed_at=NOW,
        )
    )
    for stream in streams:
        made.hear(signal(stream))
    return made


def heard(made: Consumer) -> list[str]:
    return [voice.member.stream for voice in made.voices]


def test_four_voices_are_kept() -> None:
    assert heard(consumer("a", "b", "c", "d")) == ["a", "b", "c", "d"]


def test_of_more_the_first_that_has_gone_goes() -> None:
    made = consumer("a", "b", "c", "d")
    made.voices[1].attached = made.voices[2].attached = False

    made.hear(signal("e"))

    assert heard(made) == ["a", "c", "d", "e"]


def test_else_the_first_goes() -> None:
    assert heard(consumer("a", "b", "c", "d", "e")) == ["b", "c", "d", "e"]


def test_what_two_that_are_one_have_held_is_held() -> None:
    one, other = consumer("a"), consumer("b")
    one.held, other.held = [signal("a")], [signal("b")]

    one.absorb(other)

    assert [each.member.stream for each in one.held] == ["a", "b"]


def test_what_nobody_knows_stays_as_the_best_voice_has_it() -> None:
    made = consumer("a")
    made.hear(signal("b", SourceKind.WIRE))

    assert made.merged().host == ""
    made.hear(signal("b", SourceKind.WIRE, host="h"))
    assert made.merged().host == "h"
