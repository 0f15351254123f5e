"""Elements of XML in a text that may break off anywhere, found in time linear in its length.

An expression with an end that is missing reads the rest of the text for each begin.
"""

import re
from collections.abc import Callable, Iterator


def find_elements(
    text: str, begin: re.Pattern[str], end_of: Callable[[re.Match[str]], str]
) -> Iterator[tuple[re.Match[str], str]]:
    """Yield the begin of each element with an end, and the text between them.

    ``end_of`` returns the end of an element, by its begin; there are few different ones. An element
    within another one is a part of its text.
    """
    missing, place = set[str](), 0
    while (found := begin.search(text, place)) is not None:
        place, end = found.end(), end_of(found)
        at = -1 if end in missing else text.find(end, place)
        if at < 0:
            missing.add(end)
            continue
        yield found, text[place:at]
        place = at + len(end)
