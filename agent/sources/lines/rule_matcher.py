"""Combined expressions of rules' texts, selected by the first characters of a message.

Theory of operation. A message is matched against the rules whose texts begin as it does, joined
into one expression. A ``$`` at a text's end is the end of the message. Kafka's own layout shows
that by the class behind it; other layouts may append more.
"""

import re
from collections.abc import Mapping, Sequence
from os.path import commonprefix

from agent.sources.lines.dialect import LogEvent, Rule

_LITERAL = re.compile(r"(?:[^\\.^$*+?{}\[\]|()]|\\[^\w\s\\])*(?![*+?{])")
_CHOICE = re.compile(r"\(\?:([\w |]+)\)(?![*+?{])")
_CAPTURE = re.compile(r"\(\?P<(\w+)>")
_END = re.compile(r"(?<!\\)\$\Z")

_HEAD_CHARS = 6
"""Length of a text's head, by which the candidate rules are selected."""

_BEHIND = r"(?=$|[\"'\t<>|\\)}]|\]\]|\s{1,256}(?:$|[^\w\s]|[\w.]{1,64}[=:]))"
"""End of a message in an unknown layout: a class in parentheses, a thread in brackets,
``key=value``, the ends of logfmt, JSON, WebLogic and Payara, the end of a function's argument, or
nothing. A further word makes it another text of the client. It is bounded, because some messages
try it at each character."""


class RuleMatcher:
    """Rules by the head of their texts, so that a line is tried against a few of them."""

    def __init__(self, rules: Sequence[Rule], *, is_exact: bool) -> None:
        """``is_exact``: the end of each message is known."""
        end = "$" if is_exact else _BEHIND
        heads = {rule: _heads_of(rule.text.pattern) for rule in rules}
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
    and slowly over one that begins with a group.
    """

    def __init__(self, rules: Sequence[Rule], end: str) -> None:
        patterns = (_END.sub(lambda _: end, rule.text.pattern) for rule in rules)
        texts = (
            f"{_CAPTURE.sub(rf'(?P<r{i}_{chr(92)}1>', pattern)}(?P<r{i}>)"
            for i, pattern in enumerate(patterns)
        )
        one = re.compile("|".join(texts) or "(?!)")
        self.match = one.match
        groups = one.groupindex
        self._by_mark = {
            groups[f"r{i}"]: (
                rule,
                tuple(rule.text.groupindex),
                # with a second place, a match returns a tuple even of one group
                (*(groups[f"r{i}_{name}"] for name in rule.text.groupindex), 0),
            )
            for i, rule in enumerate(rules)
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


def _heads_of(pattern: str) -> set[str]:
    """Return the literal heads of a text; an empty set if they vary."""
    text = _CAPTURE.sub("", pattern, count=1) if _CAPTURE.match(pattern) else pattern
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
    for pattern in (_END.sub("", rule.text.pattern) for rule in rules):
        alike.setdefault(literal_of(pattern)[:_HEAD_CHARS].rstrip("\\"), []).append(pattern)
    texts = []
    for some in alike.values():
        begins = [literal_of(pattern) for pattern in some]
        begin = commonprefix(begins).rstrip("\\")  # noqa: RUF071 - by characters is meant
        texts.append(f"{begin}(?:{'|'.join(pattern[len(begin) :] for pattern in some)})")
    return without_captures(f"(?:{'|'.join(texts)})")


def without_captures(pattern: str) -> str:
    """Return a pattern without names: an expression may hold each name once."""
    return _CAPTURE.sub("(?:", pattern)


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
