import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metrics.model.names import NAME_MAX_CHARS, clip_name, escape_invisible, label_text

LONG = "n" * 30_000
NAMES = ("a\x9b31m", "a\x7f", "\u202eevil", "\u2028", "a\U000e0041", "ü-1", "消费者", "💥")


def test_short_name_is_unchanged() -> None:
    assert clip_name("n" * NAME_MAX_CHARS) == "n" * NAME_MAX_CHARS


def test_long_name_keeps_its_beginning_and_a_digest() -> None:
    assert len(clip_name(LONG)) == NAME_MAX_CHARS
    assert clip_name(LONG).startswith("n" * 238 + "~")


def test_long_names_that_differ_at_the_end_stay_apart() -> None:
    assert clip_name(LONG + "a") != clip_name(LONG + "b")


@given(st.text(st.characters(), max_size=600))
def test_any_text_is_bounded_and_clipping_is_idempotent(text: str) -> None:
    clipped = clip_name(text)

    assert len(clipped) <= NAME_MAX_CHARS
    assert clip_name(clipped) == clipped


@pytest.mark.parametrize("name", NAMES)
def test_document_stays_the_same_and_is_printable(name: str) -> None:
    document = json.dumps({"name": name}, ensure_ascii=False).encode() + b"\n"

    shown = escape_invisible(document)

    assert json.loads(shown) == {"name": name}
    assert shown.decode()[:-1].isprintable()
    assert (name in shown.decode()) == name.isprintable()


def test_document_without_such_characters_is_not_copied() -> None:
    document = b'{"name":"payments"}'

    assert escape_invisible(document) is document


@pytest.mark.parametrize("name", ["payments", "ü-1", r"DOMAIN\alice", r"re:\d+"])
def test_a_label_is_the_name_where_nothing_is_invisible(name: str) -> None:
    assert label_text(name) == name


_ALIKE = st.text(st.sampled_from("\\nxu0a2\n\x00\x0a\u202e\U000e0041"), max_size=8)


@given(_ALIKE, _ALIKE)
@example("a\u202e", r"a\u202e")
@example("a\n", r"a\n")
@example("\n\\n", "\\n\n")
def test_labels_of_two_names_are_two(one: str, other: str) -> None:
    """A series that a page has twice is lost, or ends the scrape."""
    assert label_text(one).isprintable()
    assert (label_text(one) == label_text(other)) == (one == other)
