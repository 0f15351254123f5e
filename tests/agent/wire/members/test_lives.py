"""Members of random conversations: who is one at their end, and nobody else."""

import pytest

from tests.agent.wire.lives import Conversation


@pytest.mark.parametrize("steps", [14, 60])
@pytest.mark.parametrize("block", range(4))
def test_members_are_those_with_a_connection(steps: int, block: int) -> None:
    """One of two members of a client went on on another connection; the other one stayed."""
    for seed in range(block * 50, block * 50 + 50):
        conversation = Conversation(seed)
        conversation.play(steps)
        conversation.finish()
        assert conversation.attached() == conversation.members(), seed

        conversation.close_all()
        assert conversation.attached() == set(), seed
        assert conversation.wire.interpreter.registry.list_connected_origins() == set(), seed


def test_members_of_one_connection_that_go_on_apart_end_apart() -> None:
    conversation = Conversation(0)
    wire = conversation.wire
    shared = wire.connect("c")
    for group in ("g1", "g2"):
        member_id = f"c-{group}"
        for signals in (
            shared.join(member_id, group=group),
            shared.joined(member_id),
            shared.sync(member_id, group=group),
            shared.synced({"t": [0]}),
        ):
            for signal in signals:
                conversation.tracker.apply(signal)
    conversation.talks[shared.connection.client.port] = shared
    conversation.close()
    for signal in wire.connect("c").heartbeat("c-g2", group="g2"):
        conversation.tracker.apply(signal)

    conversation.finish()

    assert conversation.attached() == {("c", "c-g2")}
