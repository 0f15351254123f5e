"""When a stream is over, for the tracker to let go of its members."""

import pytest

from agent.wire.connection import ConnectionClosed
from agent.wire.members import member_registry
from agent.wire.members.disconnects import RECONNECT_S, DisconnectTracker, EndedOrigin
from tests.agent.wire.talk import Talk, Wire


def _member() -> tuple[Wire, Talk, DisconnectTracker]:
    wire = Wire()
    talk = wire.connect()
    talk.settle()
    return wire, talk, DisconnectTracker(wire.interpreter.registry)


def _stream(talk: Talk, *, by_client: bool = True) -> EndedOrigin:
    return EndedOrigin(f"10.0.0.1:{talk.connection.client.port}", by_client)


def test_a_member_that_does_not_come_back_ends_its_stream_once() -> None:
    _, talk, departures = _member()
    departures.record(ConnectionClosed(talk.connection, 100.0, by_client=True))
    talk.close()

    due = [
        departures.take_expired(at)
        for at in (99.0 + RECONNECT_S, 100.0 + RECONNECT_S, 101.0 + RECONNECT_S)
    ]

    assert due == [[], [_stream(talk)], []]


def test_at_the_end_of_a_capture_all_that_are_gone_end_their_streams() -> None:
    wire, talk, departures = _member()
    other = wire.connect("m2")
    other.settle("m2-a")
    for each in (talk, other):
        departures.record(ConnectionClosed(each.connection, 100.0, by_client=True))
        each.close()
    wire.connect("m2").heartbeat("m2-a")

    assert [departures.take_all(), departures.take_all()] == [[_stream(talk)], []]


def test_a_member_that_came_back_on_another_connection_does_not() -> None:
    wire, talk, departures = _member()
    departures.record(ConnectionClosed(talk.connection, 100.0, by_client=True))
    talk.close()

    wire.connect().heartbeat()

    assert departures.take_expired(100.0 + RECONNECT_S) == []


def test_a_connection_without_a_member_ends_nothing() -> None:
    wire, _, departures = _member()

    departures.record(ConnectionClosed(wire.connect().connection, 100.0, by_client=True))

    assert departures.take_expired(100.0 + RECONNECT_S) == []


def test_the_earliest_end_early_when_there_are_too_many() -> None:
    wire, talk, departures = _member()
    departures.limit = 1
    departures.record(ConnectionClosed(talk.connection, 100.0, by_client=True))
    talk.close()
    other = wire.connect("m2")
    other.settle("m2-a")
    departures.record(ConnectionClosed(other.connection, 101.0, by_client=True))
    other.close()

    assert departures.take_expired(101.0) == [_stream(talk)]


def test_a_stream_that_other_threads_still_use_goes_on() -> None:
    wire = Wire()
    threads = [wire.connect(f"app-StreamThread-{i}-consumer") for i in (1, 2)]
    for number, thread in enumerate(threads):
        thread.settle(f"member-{number}")
    departures = DisconnectTracker(wire.interpreter.registry)
    departures.record(ConnectionClosed(threads[0].connection, 100.0, by_client=True))
    threads[0].close()

    assert departures.take_expired(100.0 + RECONNECT_S) == []


def test_a_connection_that_its_broker_has_ended_shows_no_end_of_a_process() -> None:
    _, talk, departures = _member()
    departures.record(ConnectionClosed(talk.connection, 100.0))
    talk.close()

    assert departures.take_all() == [_stream(talk, by_client=False)]


def test_all_members_that_share_a_connection_end_with_it() -> None:
    """Sarama lets two members of a group use one client; what tells them apart is their ids."""
    wire, talk, departures = _member()
    other = wire.connect()
    other.settle("m1-b")
    talk.heartbeat("m1-b")
    other.close()

    departures.record(ConnectionClosed(talk.connection, 100.0, by_client=True))
    talk.close()

    assert set(departures.take_expired(100.0 + RECONNECT_S)) == {_stream(talk), _stream(other)}
    assert wire.interpreter.registry.list_connected_origins() == set()


def test_the_origin_of_one_that_was_found_to_be_another_ends_too() -> None:
    """The tracker knows it by what its first request showed."""
    wire, talk, departures = _member()
    other = wire.connect()
    other.join("")
    other.joined("m1-a")
    for each in (talk, other):
        departures.record(ConnectionClosed(each.connection, 100.0, by_client=True))
        each.close()

    assert set(departures.take_expired(100.0 + RECONNECT_S)) == {_stream(talk), _stream(other)}


def test_origins_of_former_members_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection may go on for ever, and be used by one member after the other."""
    monkeypatch.setattr(member_registry, "FORMER_MAX", 2)
    wire, talk, departures = _member()
    others = [wire.connect() for _ in range(4)]
    for each in others:
        each.join("")
        each.joined("m1-a")
    for each in (talk, *others):
        departures.record(ConnectionClosed(each.connection, 100.0, by_client=True))
        each.close()

    assert len(departures.take_all()) == 3  # that of the member itself, and two
