"""Finds the comments `# minor-change: REASON` of a YAML file, by which an author declares a change as minor.

The YAML parser drops comments, so they are searched in the text.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

import yaml

from sidecar.adapters.definitions_directory.yaml_documents import PARSER
from sidecar.core.definitions.review.overrides import COMMENT, Annotation

CANDIDATE: Final = re.compile(rf"#\s*{re.escape(COMMENT)}[^\S\n]*(?P<reason>\S.*?)?[^\S\n]*$")
EMPTY: Final = re.compile(r"\s*(#.*)?$")
INDENT: Final = re.compile(r"\s*")


def annotations_of(content: bytes) -> tuple[Annotation, ...]:
    """Return the comments `# minor-change: REASON` of a file, in order of line.

    A comment after a value belongs to the line of the value. A comment on its own line belongs to the next item, or to
    the previous item if the next one is indented less.
    """
    if COMMENT.encode() not in content:
        return ()
    text = content.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.splitlines()
    # Parsed only if the text occurs at all, because this takes longer than loading the file.
    scalars = sorted(_scalars(text))
    return tuple(
        Annotation(_anchor(lines, number, match.start()), match["reason"])
        for number, line in enumerate(lines)
        if (match := CANDIDATE.search(line)) and match["reason"] and not _is_in_scalar(scalars, number, match.start())
    )


def _scalars(text: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield the begin and the end of each scalar as (line, column), counted from 0."""
    # Needed because a `#` inside a scalar is text and begins no comment.
    try:
        for event in yaml.parse(text, Loader=PARSER):
            if isinstance(event, yaml.ScalarEvent) and event.start_mark is not None and event.end_mark is not None:
                begin, end = event.start_mark, event.end_mark
                yield (begin.line, begin.column), (end.line, end.column)
    except yaml.YAMLError:
        return


def _is_in_scalar(scalars: list[tuple[tuple[int, int], tuple[int, int]]], line: int, column: int) -> bool:
    # The last scalar that begins at or before the position.
    index = bisect_right(scalars, ((line, column), (line + 1, 0))) - 1
    return index >= 0 and scalars[index][0] <= (line, column) < scalars[index][1]


def _anchor(lines: list[str], number: int, column: int) -> int:
    """Return the line, counted from 1, of the item to which a comment belongs.

    Args:
        lines: all lines of the file.
        number: the line of the comment, counted from 0.
        column: the column of the comment, counted from 0.
    """
    if lines[number][:column].strip():
        return number + 1
    after = next((at for at in range(number + 1, len(lines)) if not EMPTY.match(lines[at])), None)
    if after is not None and _indent(lines[after]) >= column:
        return after + 1
    before = next((at for at in range(number - 1, -1, -1) if not EMPTY.match(lines[at])), number)
    return before + 1


def _indent(line: str) -> int:
    match = INDENT.match(line)
    return 0 if match is None else match.end()
