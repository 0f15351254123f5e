from agent.inspection.response_cache import Kept


def test_the_same_bytes_say_what_they_said_a_poll_ago() -> None:
    kept = Kept[int]()
    kept.keep("batch", b"bytes", {"g": 1})

    kept.begin()

    assert kept.find("batch", b"bytes") == {"g": 1}
    assert kept.find("batch", b"other") is None
    assert kept.find("other", b"bytes") is None


def test_what_a_poll_finds_is_kept_for_the_next() -> None:
    kept = Kept[int]()
    kept.keep("batch", b"bytes", {"g": 1})
    kept.begin()
    kept.find("batch", b"bytes")

    kept.begin()

    assert kept.find("batch", b"bytes") == {"g": 1}


def test_what_a_poll_does_not_ask_is_forgotten() -> None:
    kept = Kept[int]()
    kept.keep("batch", b"bytes", {"g": 1})

    kept.begin()
    kept.begin()

    assert kept.find("batch", b"bytes") is None
