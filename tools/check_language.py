"""A check of the project's language: five figures of docstrings and names, each with a limit.

The reader is an engineer in the middle of the night, and English may not be his first language.
Plain sentences and the field's own words are therefore a property of the code that can be measured.
The limits stand in `pyproject.toml`, section `tool.language`; a limit is only ever lowered.
`docs/glossary.md` lists the words to use.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGES = ("agent", "metrics", "aggregation")
LIMITS = "pyproject.toml"

_QUESTION_OPENING = re.compile(r"(What|How|Which|Who|Where|Why|Whose|Of what|In which)\b")
_SAYING = {"tell", "tells", "told", "telling", "says", "say", "said"}
_QUESTION = {"what", "who", "whose", "whom", "where", "which"}
_WORD = re.compile(r"[a-z]+")
_PARTICIPLE = re.compile(
    r"(ed|told|made|shown|seen|found|held|known|heard|met|left|sent|kept|begun|begin)$"
)
_VERBS_THAT_END_ALIKE = {"feed", "need", "read", "seed", "proceed", "embed", "send", "speed"}

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Documented = _Function | ast.ClassDef | ast.Module


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value, its limit's key, and the places that make it."""

    key: str
    text: str
    value: float
    places: list[str]


@dataclass(slots=True)
class _Counts:
    modules: int = 0
    functions: int = 0
    words: int = 0
    openings: list[str] = field(default_factory=list)
    sayings: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    participles: list[str] = field(default_factory=list)
    classes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def read_module(self, name: str, tree: ast.Module) -> None:
        """Count one module."""
        opening = ast.get_docstring(tree)
        if opening:
            self.modules += 1
            if _QUESTION_OPENING.match(opening):
                self.openings.append(f"{name}:1: {opening.splitlines()[0]}")
        for node in ast.walk(tree):
            if isinstance(node, _Function):
                self._read_function(name, node)
            if isinstance(node, ast.ClassDef):
                self.classes[node.name.strip("_")].add(name)
            if isinstance(node, _Documented):
                self._read_docstring(name, node)

    def _read_function(self, name: str, node: _Function) -> None:
        self.functions += 1
        verb = node.name.strip("_").partition("_")[0]
        if _PARTICIPLE.search(verb) and verb not in _VERBS_THAT_END_ALIKE:
            self.participles.append(f"{name}:{node.lineno}: {node.name}")

    def _read_docstring(self, name: str, node: _Documented) -> None:
        line = 1 if isinstance(node, ast.Module) else node.lineno
        for word in _WORD.findall((ast.get_docstring(node) or "").lower()):
            self.words += 1
            if word in _SAYING:
                self.sayings.append(f"{name}:{line}: {word}")
            if word in _QUESTION:
                self.questions.append(f"{name}:{line}: {word}")

    def figures(self) -> Iterator[Figure]:
        """Yield the five figures."""
        yield Figure(
            key="question-openings",
            text="% of module docstrings that begin with a question word",
            value=100 * len(self.openings) / max(1, self.modules),
            places=self.openings,
        )
        yield Figure(
            key="tell-and-say",
            text="tell or say in 1,000 words of docstrings",
            value=1000 * len(self.sayings) / max(1, self.words),
            places=self.sayings,
        )
        yield Figure(
            key="question-words",
            text="what, who, which or where in 1,000 words of docstrings",
            value=1000 * len(self.questions) / max(1, self.words),
            places=self.questions,
        )
        yield Figure(
            key="participles",
            text="% of functions that are named by a participle",
            value=100 * len(self.participles) / max(1, self.functions),
            places=self.participles,
        )
        doubled = [
            f"{name}: {', '.join(sorted(modules))}"
            for name, modules in sorted(self.classes.items())
            if len(modules) > 1
        ]
        yield Figure(
            key="doubled-classes",
            text="class names that two modules define",
            value=float(len(doubled)),
            places=doubled,
        )


def measure_language(root: Path) -> list[Figure]:
    """Return the figures of the packages below `root`."""
    counts = _Counts()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            counts.read_module(
                path.relative_to(root).as_posix(), ast.parse(path.read_text(encoding="utf-8"))
            )
    return list(counts.figures())


def read_limits(root: Path) -> dict[str, float]:
    """Return the limit of each figure, by its key."""
    settings = tomllib.loads((root / LIMITS).read_text(encoding="utf-8"))
    return {key: float(limit) for key, limit in settings["tool"]["language"].items()}


def main(arguments: list[str] | None = None) -> int:
    """Print each figure beside its limit; return 1 where one is above it."""
    parser = argparse.ArgumentParser(prog="check_language", description="Measure the language.")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parent.parent)
    parser.add_argument("--places", metavar="KEY", help="list the places that make this figure")
    options = parser.parse_args(arguments)
    limits = read_limits(options.root)
    above = 0
    for figure in measure_language(options.root):
        limit = limits[figure.key]
        verdict = "ok" if figure.value <= limit else "ABOVE ITS LIMIT"
        above += figure.value > limit
        print(f"{figure.value:6.1f}  at most {limit:4g}  {figure.key}: {figure.text}: {verdict}")
        if options.places == figure.key:
            print(*figure.places, sep="\n")
    return int(above > 0)


if __name__ == "__main__":
    sys.exit(main())
