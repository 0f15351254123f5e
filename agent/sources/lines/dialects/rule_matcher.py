"""Combined expressions of rules' texts, selected by the first characters of a message.

Theory of operation. A message is matched against the rules with the same first characters, joined
into one expression. A ``$`` at a text's end is the end of the message. Kafka's own layout shows
that end by the name of the class after it; other layouts may append other text. Behind a text that
ends in fixed words, it may be anything but the rest of a word. Behind a free or a cut text, further
words are its own.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from os.path import commonprefix

from agent.sources.lines.dialects.dialect import CAPTURE, LogEvent, Rule

_LITERAL = re.compile(r"(?:[^\\.^$*+?{}\[\]|()]|\\[^\w\s\\])*(?![*+?{])")
_CHOICE = re.compile(r"\(\?:([\w |]+)\)(?![*+?{])")
_END = re.compile(r"(?<!\\)\$\Z")

_HEAD_CHARS = 6
"""Length of a text's head; it selects the candidate rules."""

_BEHIND = (
    r"(?=$|[\"'\t\n<>|\\)}`*^~\x1b]|#012|\]\]|;(?=\S|$)|[\],]{1,3}(?:$| \[)"
    r"|\s{1,256}(?:$|[^\w\s]|[\w.]{1,64}[=:]))"
)
"""End of a message in an unknown layout: a class in parentheses, a thread in brackets,
``key=value``, the ends of logfmt, JSON, WebLogic and Payara, of a column or a bracket, the end of a
function's argument, a mark of Markdown or of a colour, or nothing. A further word makes it another
text of the client. It is bounded, because some messages try it at each character."""
_BEHIND_WORDS = r"(?=$|[^\w-])"
"""The same behind fixed words: a layout appends a trace id or a class without a mark, too."""
_FIXED_WORDS = re.compile(r"(?:\w|\\[).]|\\d\+)\)*\$\Z")
_LAZY = re.compile(r"[+*}]\?")
_LETTERS = re.compile(r"[A-Za-z]{3}")


class RuleMatcher:
    """Rules by the head of their texts, so that a line is tried against a few of them."""

    def __init__(self, rules: Sequence[Rule], *, is_exact: bool) -> None:
        """``is_exact``: the end of each message is known."""
        end = "$" if is_exact else None
        heads = {rule: _heads_of(rule.text) for rule in rules}
        self._by_head = {
            head: _CombinedRegex(
                [rule for rule in rules if not heads[rule] or head in heads[rule]], end
            )
            for head in set().union(*heads.values())
        }
        self._others = _CombinedRegex([rule for rule in rules if not heads[rule]], end)

    def expression_at(self, entry: str, behind: int) -> "_CombinedRegex":
        """Return the expression of the rules that can match at ``behind``."""
        return self._by_head.get(entry[behind : behind + _HEAD_CHARS]) or self._others


class _CombinedRegex:
    """Several rules as one expression, and the places of their captures.

    A rule's mark stands at its end: `re` passes quickly over a branch that begins with a literal
    and slowly over one that begins with a group. It is compiled at its first use, as most are for
    messages that a log never holds.
    """

    def __init__(self, rules: Sequence[Rule], end: str | None) -> None:
        """``end`` is the end of each message; None: it is not known."""
        self._rules, self._end = rules, end

    @cached_property
    def match(self) -> Callable[[str, int, int], re.Match[str] | None]:
        """Return the match of a message between two places."""
        return self._regex.match

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        patterns = (self._replace_end(rule.text) for rule in self._rules)
        texts = (
            f"{CAPTURE.sub(rf'(?P<r{i}_{chr(92)}1>', pattern)}(?P<r{i}>)"
            for i, pattern in enumerate(patterns)
        )
        return re.compile("|".join(texts) or "(?!)")

    def _replace_end(self, pattern: str) -> str:
        end = self._end or (_BEHIND_WORDS if _ends_in_words(pattern) else _BEHIND)
        return _END.sub(lambda _: end, pattern)

    @cached_property
    def _by_mark(self) -> Mapping[int, tuple[Rule, tuple[str, ...], tuple[int, ...]]]:
        groups = self._regex.groupindex
        return {
            groups[f"r{i}"]: (
                rule,
                rule.captures,
                # with a second place, a match returns a tuple even of one group
                (*(groups[f"r{i}_{name}"] for name in rule.captures), 0),
            )
            for i, rule in enumerate(self._rules)
        }

    def event(self, match: re.Match[str], who: Mapping[str, str]) -> LogEvent | None:
        """Return the event of a match and its prefix; None if a number is invalid."""
        rule, names, places = self._by_mark[match.lastindex or 0]
        if not names:
            return LogEvent(rule=rule, captures=who)
        captures = dict(who)
        for name, text in zip(names, match.group(*places), strict=False):
            if text:
                captures[name] = text  # noqa: PERF403 - the others stay
        if rule.numbers and not rule.accepts(captures):
            return None
        return LogEvent(rule=rule, captures=captures)


def _ends_in_words(pattern: str) -> bool:
    """Return whether a text ends in fixed words, and not in a capture that ends where they do."""
    behind_lazy = _LAZY.split(pattern)[-1]
    is_free = behind_lazy != pattern and _LETTERS.search(behind_lazy) is None
    return _FIXED_WORDS.search(pattern) is not None and not is_free


def _heads_of(pattern: str) -> set[str]:
    """Return the literal heads of a text; an empty set if they vary."""
    text = CAPTURE.sub("", pattern, count=1) if CAPTURE.match(pattern) else pattern
    choice = _CHOICE.match(text)
    texts = [text]
    if choice is not None:
        texts = [word + text[choice.end() :] for word in choice[1].split("|")]
        pattern = pattern.replace(choice[0], "", 1)
    heads = {literal_of(text).replace("\\", "")[:_HEAD_CHARS] for text in texts}
    varies = any(len(head) < _HEAD_CHARS for head in heads) or _branches(pattern)
    return set() if varies else heads


def any_of(rules: Sequence[Rule]) -> str:
    """Return an expression that finds the text of any of the rules.

    A common begin of several texts is searched once.
    """
    alike: dict[str, list[str]] = {}
    for pattern in (_END.sub("", rule.text) for rule in rules):
        alike.setdefault(literal_of(pattern)[:_HEAD_CHARS].rstrip("\\"), []).append(pattern)
    texts = []
    for some in alike.values():
        begins = [literal_of(pattern) for pattern in some]
        begin = commonprefix(begins).rstrip("\\")  # noqa: RUF071 - by characters is meant
        texts.append(f"{begin}(?:{'|'.join(pattern[len(begin) :] for pattern in some)})")
    return without_captures(f"(?:{'|'.join(texts)})")


def without_captures(pattern: str) -> str:
    """Return a pattern without names: an expression may hold each name once."""
    return CAPTURE.sub("(?:", pattern)


def literal_of(pattern: str) -> str:
    """Return the literal start of a pattern, common to all its texts."""
    found = None if _branches(pattern) else _LITERAL.match(pattern)
    return "" if found is None else found[0]


def _branches(pattern: str) -> bool:
    """Return whether a pattern has alternatives from its start on."""
    bare = re.sub(r"\\.|\[\^?.[^\]]*\]", "", pattern)
    depth, outermost = 0, int(pattern.startswith("("))
    for character in bare:
        depth += (character == "(") - (character == ")")
        if character == "|" and depth <= outermost:
            return True
    return False
