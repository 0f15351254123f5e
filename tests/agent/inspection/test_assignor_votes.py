from agent.inspection.assignor_votes import count_votes


def test_the_assignor_that_all_support_and_most_prefer_is_chosen() -> None:
    supported = {
        "a": ("cooperative-sticky", "range"),
        "b": ("range", "cooperative-sticky"),
        "c": ("cooperative-sticky", "range", "mine"),
    }

    chosen, other, mine = count_votes(supported, "cooperative-sticky")

    assert (chosen.is_chosen, chosen.votes, chosen.supported_by) == (True, 2, 3)
    assert chosen.reason == "2 of 3 members prefer it"
    assert other.reason == "1 of 3 members prefer it, 2 prefer cooperative-sticky"
    assert (mine.supported_by, mine.reason) == (1, "not supported by a, b")


def test_a_rolling_change_goes_on_until_every_member_supports_the_new_one() -> None:
    old, new = ("range",), ("cooperative-sticky", "range")
    members = {f"m{number}": new for number in range(5)}

    votes = count_votes(members | dict.fromkeys(("x1", "x2", "x3", "x4"), old), "range")

    assert [vote.reason for vote in votes] == [
        "9 of 9 members prefer it",
        "not supported by x1, x2, x3 and 1 more",
    ]


def test_among_equals_the_coordinator_chooses() -> None:
    (_, other) = count_votes({"a": ("range", "sticky"), "b": ("sticky", "range")}, "range")

    assert other.reason == "1 of 2 members prefer it; the coordinator chose among equals"
