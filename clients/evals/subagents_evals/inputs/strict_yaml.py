"""Reads YAML files into types, and reports each mistake with its line."""

import re
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import yaml

from sidecar_gates_manifest.strict_yaml import StrictLoader

MOST_BYTES: Final = 4 * 1024 * 1024
STEP: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\[(\d+|\.\.\.)\]")
Read = TypeVar("Read")


class UnusableFile(ValueError):
    """A file cannot be used; the message has file, line, problem, and the expected content."""


class Lines:
    """The lines of the values in a file.

    Args:
        path: path of the file, for messages.
        root: root node of the file; None for an empty file.
    """

    def __init__(self, path: Path, root: yaml.Node | None) -> None:
        self._path = path
        self._root = root

    def at(self, *steps: str | int) -> str:
        """Return `file:line` of a value, or of the nearest one around it."""
        node, line = self._root, 1
        for step in steps:
            found = _child(node, step)
            if found is None:
                break
            line, node = found
        return f"{self._path}:{line}"


def read_as(path: Path, shape: type[Read]) -> tuple[Read, Lines]:
    """Return the content of a file as a value of a type, and the lines of its parts.

    Raises:
        UnusableFile: the file is missing, too large, not YAML, uses aliases, repeats a key, or does not fit the type.
    """
    content = _bytes_of(path)
    try:
        loader = StrictLoader(content.decode("utf-8"))
        root = loader.get_single_node()
        value = None if root is None else loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UnusableFile(f"{path}:{mark.line + 1 if mark else 1}: {error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UnusableFile(f"{path}:1: not YAML in UTF-8 ({type(error).__name__})") from None
    lines = Lines(path, root)
    try:
        return msgspec.convert(value, type=shape), lines
    except ValueError as error:
        message, _, way = str(error).partition(" - at `$")
        raise UnusableFile(f"{lines.at(*_steps(way))}: {message}{f' (at {way[:-1]})' if way else ''}") from None


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise UnusableFile(f"{path}: cannot be read ({type(error).__name__})") from None
    if len(content) > MOST_BYTES:
        raise UnusableFile(f"{path}: larger than {MOST_BYTES} bytes; split the file")
    return content


def _steps(way: str) -> list[str | int]:
    return [int(number) if number.isdecimal() else name or number for name, number in STEP.findall(way)]


def _child(node: yaml.Node | None, step: str | int) -> tuple[int, yaml.Node] | None:
    """Return (first line, node) of a child; the line is that of the key if the parent is a mapping."""
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        child: yaml.Node = node.value[step]
        return child.start_mark.line + 1, child
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            # `...` is any key, whose name the message does not tell: clear only where there is one.
            if key.value == str(step) or (step == "..." and len(node.value) == 1):
                return key.start_mark.line + 1, value
    return None
