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


def test_attributes_of_a_process_come_from_a_view_of_its_member_id() -> None:
    """A closed process leaves its log, and its successor is seen on the wire first."""
    made = consumer()
    old = member_signal("log", SourceKind.LOGS, "m-1", host="h", assignor="range")
    made.record_view(old)
    made.record_view(member_signal("c-1", SourceKind.WIRE, "m-1", assignor="range"))
    made.record_view(member_signal("c-2", SourceKind.WIRE, "m-2", assignor="sticky"))

    merged = made.merge_views()
    assert (merged.member_id, merged.assignor, merged.host) == ("m-2", "sticky", "h")

    made.record_view(old)
    assert made.merge_views().assignor == "sticky"
    made.record_view(member_signal("new log", SourceKind.LOGS, "m-2", assignor="cooperative"))
    assert made.merge_views().assignor == "cooperative"


def test_views_of_a_predecessor_fill_what_no_other_shows() -> None:
    made = consumer()
    made.record_view(member_signal("log", SourceKind.LOGS, "m-1", software="java 4.0.0"))
    made.record_view(member_signal("c-2", SourceKind.WIRE, "m-2", assignor="sticky"))

    assert made.merge_views().software == "java 4.0.0"


def member_signal(
    stream: str, source: SourceKind, member_id: str, **attributes: str | None
) -> Signal:
    member = Member(group="g", client_id="m", member_id=member_id, origin=stream, **attributes)  # type: ignore[arg-type]
    return Signal(kind=SignalKind.SEEN, at=NOW, member=member, source=source)


def test_the_group_type_is_that_of_the_requests_not_of_a_logs_texts() -> None:
    made = consumer()
    log = member_signal("log", SourceKind.LOGS, "m-1", group_type="classic")
    made.record_view(log)
    requests = member_signal(
        "c-1", SourceKind.WIRE, "m-1", group_type="consumer", protocol_type=None
    )
    made.record_view(requests)
    made.record_view(log)

    found = made.merge_views()
    assert (found.group_type, found.protocol_type) == ("consumer", None)


def test_a_process_before_has_no_say_in_the_group_type() -> None:
    made = consumer()
    made.record_view(member_signal("c-1", SourceKind.WIRE, "m-1", group_type="classic"))
    made.record_view(member_signal("log", SourceKind.LOGS, "m-2", group_type="consumer"))

    assert made.merge_views().group_type == "consumer"
