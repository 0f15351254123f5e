"""The check of the language: each figure counts what its name says, and a limit bites."""

from pathlib import Path

import pytest

from tools.check_language import PACKAGES, Figure, main, measure_language, read_limits

ROOT = Path(__file__).parent.parent.parent
KEYS = {"question-openings", "tell-and-say", "question-words", "participles", "doubled-classes"}


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def figure(root: Path, key: str) -> Figure:
    return {each.key: each for each in measure_language(root)}[key]


def limits(root: Path, **above: float) -> None:
    lines = [f"{key} = {above.get(key.replace('-', '_'), 0)}" for key in sorted(KEYS)]
    write(root, "pyproject.toml", "[tool.language]\n" + "\n".join(lines))


def test_a_question_word_that_opens_a_module_is_counted(tmp_path: Path) -> None:
    write(tmp_path, "agent/a.py", '"""How a thing is."""\n')
    write(tmp_path, "agent/b.py", '"""A thing."""\n')
    write(tmp_path, "agent/c.py", "x = 1\n")  # no docstring: not part of the share

    opening = figure(tmp_path, "question-openings")

    assert (opening.value, opening.places) == (50.0, ["agent/a.py:1: How a thing is."])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("However it is.", 0), ("Of what it is made.", 100), ("Whose it is.", 100)],
)
def test_only_whole_opening_words_count(tmp_path: Path, text: str, expected: float) -> None:
    write(tmp_path, "metrics/a.py", f'"""{text}"""\n')

    assert figure(tmp_path, "question-openings").value == expected


@pytest.mark.parametrize(
    ("key", "text"),
    [("tell-and-say", "It told one two."), ("question-words", "One who knows two.")],
)
def test_words_are_counted_in_docstrings_of_all_kinds(tmp_path: Path, key: str, text: str) -> None:
    write(
        tmp_path,
        "aggregation/deep/a.py",
        f'"""{text}"""\nclass A:\n    """{text}"""\n    async def go(self):\n'
        f'        """{text}"""\n        return "told who what"  # told who\n',
    )

    words = figure(tmp_path, key)

    assert words.value == 250.0
    assert [place.rsplit(":", 1)[0] for place in words.places] == [
        "aggregation/deep/a.py:1",
        "aggregation/deep/a.py:2",
        "aggregation/deep/a.py:4",
    ]


@pytest.mark.parametrize(
    ("name", "is_participle"),
    [
        ("counted", True),
        ("_kept_lines", True),
        ("count_told", False),  # the first part alone
        ("read_lines", False),
        ("feed", False),
        ("embed", False),
    ],
)
def test_a_function_is_a_participle_by_its_first_part(
    tmp_path: Path, name: str, is_participle: bool
) -> None:
    write(tmp_path, "agent/a.py", f"class A:\n    def {name}(self): ...\n")

    assert figure(tmp_path, "participles").value == (100.0 if is_participle else 0.0)


def test_a_class_name_of_two_modules_is_doubled_whatever_its_underscore(tmp_path: Path) -> None:
    write(tmp_path, "agent/a.py", "class _Row: ...\nclass Only: ...\nclass Only: ...\n")
    write(tmp_path, "metrics/b.py", "class Row: ...\n")

    doubled = figure(tmp_path, "doubled-classes")

    assert (doubled.value, doubled.places) == (1.0, ["Row: agent/a.py, metrics/b.py"])


def test_other_folders_are_not_measured(tmp_path: Path) -> None:
    write(tmp_path, "tests/a.py", '"""How it is told."""\ndef counted(): ...\n')

    assert [each.value for each in measure_language(tmp_path)] == [0.0] * 5


def test_a_figure_above_its_limit_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "agent/a.py", "def counted(): ...\n")
    limits(tmp_path, participles=99.9)

    assert main([str(tmp_path), "--places", "participles"]) == 1
    printed = capsys.readouterr().out
    assert printed.count("ABOVE ITS LIMIT") == 1
    assert "agent/a.py:1: counted" in printed


def test_a_figure_at_its_limit_passes(tmp_path: Path) -> None:
    write(tmp_path, "agent/a.py", "def counted(): ...\n")
    limits(tmp_path, participles=100)

    assert main([str(tmp_path)]) == 0


def test_every_figure_has_a_limit_and_every_package_is_measured() -> None:
    assert read_limits(ROOT).keys() == KEYS
    assert all(list((ROOT / package).rglob("*.py")) for package in PACKAGES)


def test_the_repository_is_within_its_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0, capsys.readouterr().out
