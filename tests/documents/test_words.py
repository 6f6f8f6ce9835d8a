"""Pages, protos and code do without the words that were given up; the files that still have some only get better."""

from pathlib import Path

import pytest

from tests.architecture.reading import planted
from tests.documents.words import LEFT, allowed, given_up_in, lowered, problems, uses


def test_given_up_words_only_get_fewer() -> None:
    """In every page, proto and module."""
    assert list(problems(uses(), allowed(LEFT.read_text("utf-8")))) == []


def test_a_new_use_is_caught() -> None:
    """In a file without an allowance, and in one that has used up its own."""
    there = {"docs/new.md": [(1, "nobody")], "sidecar/old.py": [(1, "Errand"), (2, "whoever")]}

    said = list(problems(there, {"sidecar/old.py": 1}))

    assert [each.partition(";")[0] for each in said] == [
        "docs/new.md has 1, may have 0",
        "sidecar/old.py has 2, may have 1",
    ]


def test_an_allowance_falls_with_its_file() -> None:
    """The command lowers allowances, and never raises one."""
    there, most = {"a.md": [(1, "nobody")], "b.md": [(1, "nobody")]}, {"a.md": 2, "gone.md": 1}

    assert [each.partition(" ")[0] for each in problems(there, most)] == ["b.md", "a.md", "gone.md"]
    assert lowered(there, most) == "1 a.md\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Nobody waits.", ["Nobody"]),
        ("It is gone\non with, but ``_NOBODY`` is a name.", ["gone\non"]),
        ("class Errand:\n    '''Join the parts.'''", ["Errand", "Join the parts"]),
        ("class TurnWish:", ["TurnWish"]),
        ("Operators continue; no user is served; surrounding text.", []),
    ],
)
def test_words_and_names_are_found(text: str, words: list[str]) -> None:
    """Across line ends, in any case; an identifier that contains a word is another name."""
    assert [word for _, word in given_up_in(text)] == words


def test_files_are_found(tmp_path: Path) -> None:
    """Each kind that is read, and none that is exempt."""
    text = "# nobody\n"
    files = ("README.md", "docs/a.md", "proto/x/v1/x.proto", "sidecar/a.py", "DECISIONS.md", "tests/a.py")

    assert list(uses(planted(tmp_path, dict.fromkeys(files, text)))) == [
        *("README.md", "docs/a.md", "proto/x/v1/x.proto", "sidecar/a.py")
    ]
