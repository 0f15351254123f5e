"""The glossary: one word, one meaning, in sentences that are quickly read."""

import re
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "glossary.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ")
][1:]


def test_each_word_stands_once_in_order() -> None:
    words = [word for word, _meaning, _not in ROWS]

    assert words == sorted(set(words))
    assert 25 <= len(words) <= 40


def test_no_word_is_one_that_another_word_replaces() -> None:
    words = {word for word, _meaning, _not in ROWS}

    assert words & {other for *_, others in ROWS for other in others.split(", ")} == set()


def test_a_sentence_has_at_most_25_words() -> None:
    sentences = {
        sentence
        for _word, meaning, _not in ROWS
        for sentence in re.split(r"(?<=[.;])\s", meaning)
        if len(sentence.split()) > 25
    }

    assert sentences == set()
