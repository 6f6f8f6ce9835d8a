"""Whoever silences a check says why, on the same line; `# fmt` is about layout and silences nothing."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.reading import REPOSITORY, Module, modules, planted

SUPPRESSIONS: Final = {
    "noqa": re.compile(r"#\s*(ruff:\s*)?noqa\b(?P<code>:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*)?(?P<reason>.*)"),
    "type: ignore": re.compile(r"#\s*type:\s*ignore(?P<code>\[[\w, -]+\])?(?P<reason>.*)"),
    "a setting for a checker": re.compile(
        r"#\s*(?P<code>mypy:\s*[\w-]+|pyright:\s*\w+|pylint:\s*\S+|nosec|pragma:\s*no cover)(?P<reason>.*)"
    ),
}
ENOUGH: Final = 10
"""Characters: two words at least."""


def violations(found: list[Module]) -> Iterator[str]:
    """Yield each suppression without a code or a reason."""
    for module in found:
        if not any(pattern.search(module.text) for pattern in SUPPRESSIONS.values()):
            continue
        for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
            if token.type == tokenize.COMMENT and (problem := _problem(token.string)):
                yield f"{module.path}:{token.start[0]} {problem}"


def _problem(comment: str) -> str | None:
    for what, pattern in SUPPRESSIONS.items():
        if match := pattern.search(comment):
            if not match["code"]:
                return f"{what} silences everything; name the rule"
            if len(match["reason"].strip(" #-:,")) < ENOUGH:
                return f"{what} without a reason"
    return None


def settings_without_reason(toml: str) -> Iterator[str]:
    """Yield each rule that pyproject switches off without a comment beside it."""
    ignoring = False
    for line in toml.splitlines():
        rule = re.match(r'\s*"[A-Z]+\d*"', line)
        ignoring = (ignoring and line.strip() != "]") or bool(re.match(r'(ignore|"[^"]+") = \[', line))
        if ignoring and (rule or re.match(r'"[^"]+" = \[.*\]', line)) and not re.search(r"#\s*\S.{3,}", line):
            yield line.strip()


def test_every_suppression_has_a_reason() -> None:
    """In code."""
    assert list(violations(modules())) == []


def test_every_rule_that_is_switched_off_has_a_reason() -> None:
    """In pyproject."""
    assert list(settings_without_reason((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "line",
    [
        "import os  # noqa",
        "import os  # noqa: F401",
        "import os  # noqa: F401 x",
        "X = 1  # type: ignore",
        "X = 1  # type: ignore[assignment]",
        "# ruff: noqa",
        "# mypy: ignore-errors",
        "def f(): ...  # pragma: no cover",
    ],
)
def test_a_bare_suppression_is_caught(line: str, tmp_path: Path) -> None:
    """One of each kind."""
    assert len(list(violations(modules(root=planted(tmp_path, {"sidecar/core/x.py": line}))))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "import os  # noqa: F401  re-exported for the callers of the old path",
        "X = 1  # type: ignore[assignment]  # the stubs of the library leave this open",
    ],
)
def test_a_suppression_with_its_reason_is_let_through(line: str, tmp_path: Path) -> None:
    """The rule's code, and why."""
    assert list(violations(modules(root=planted(tmp_path, {"sidecar/core/x.py": line})))) == []


def test_a_rule_switched_off_without_reason_is_caught() -> None:
    """One with, two without."""
    toml = 'ignore = [\n  "D105", # says itself\n  "D107",\n]\n[x]\n"tests/**" = ["S"]\n'
    assert list(settings_without_reason(toml)) == ['"D107",', '"tests/**" = ["S"]']
