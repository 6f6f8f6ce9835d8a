"""Writes a page of the documentation that is generated from the code, or with `--check` only compares it."""

import sys
from pathlib import Path

from scripts.generate_protos import REPOSITORY


class NotDocumented(Exception):
    """A comment or a docstring lacks a part that a page needs, or contradicts the code."""


def write_or_check(path: Path, text: str) -> int:
    """Write a page that is not current, or with `--check` in the command line say so. Return the exit code."""
    if path.exists() and path.read_text("utf-8") == text:
        return 0
    if "--check" in sys.argv:
        command = f"python -m scripts.{Path(sys.argv[0]).stem}"
        print(f"{path.relative_to(REPOSITORY)} is not current; run `{command}`")
        return 1
    path.write_text(text, "utf-8")
    return 0
