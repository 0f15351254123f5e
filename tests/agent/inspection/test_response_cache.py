from agent.inspection.response_cache import ResponseCache


def test_the_same_bytes_say_what_they_said_a_poll_ago() -> None:
    kept = ResponseCache[int]()
    kept.store("batch", b"bytes", {"g": 1})

    kept.start_poll()

    assert kept.find("batch", b"bytes") == {"g": 1}
    assert kept.find("batch", b"other") is None
    assert kept.find("other", b"bytes") is None


def test_what_a_poll_finds_is_kept_for_the_next() -> None:
    kept = ResponseCache[int]()
    kept.store("batch", b"bytes", {"g": 1})
    kept.start_poll()
    kept.find("batch", b"bytes")

    kept.start_poll()

    assert kept.find("batch", b"bytes") == {"g": 1}


def test_what_a_poll_does_not_ask_is_forgotten() -> None:
    kept = ResponseCache[int]()
    kept.store("batch", b"bytes", {"g": 1})

    kept.start_poll()
    kept.start_poll()

    assert kept.find("batch", b"bytes") is None
