"""Names of topics are bounded, whatever ids a peer sends."""

from agent.wire.members.topic_names import TOPICS_MAX, TopicNames


def test_bound_holds_for_learned_and_for_used_names() -> None:
    names = TopicNames()
    for number in range(2 * TOPICS_MAX):
        names.learn([(f"id{number}", f"t{number}")])
        names.name_partitions([f"other{number}-0"])

    assert names.name_partitions(["id0-0"]) == ("id0-0",)
    assert names.name_partitions([f"id{2 * TOPICS_MAX - 1}-0"]) == (f"t{2 * TOPICS_MAX - 1}-0",)
    assert len(names) == 2 * TOPICS_MAX
