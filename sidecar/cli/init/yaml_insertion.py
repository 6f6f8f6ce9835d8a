"""Inserts entries into a YAML file as text, so that all other lines stay unchanged, comments included.

PyYAML's nodes (`Any` in the signatures) tell where in the text each part is.
"""

from textwrap import indent
from typing import Any

import yaml

from sidecar.cli.scaffolding.project_files import ScaffoldError


class InsertedYaml:
    """The text of one file; each insertion replaces it, so nodes from before it are no longer valid.

    Every method raises `ScaffoldError` if the file does not have the expected form.

    Args:
        text: of the file.
        path: for messages.
    """

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self._path = path

    def items(self, key: str) -> list[Any]:
        """Return the items of the list below a key of the file, as nodes."""
        return list(self._below(self._root(), key, yaml.SequenceNode).value)

    def pairs(self, key: str) -> dict[str, Any]:
        """Return the values of the mapping below a key of the file, as nodes."""
        return {name.value: value for name, value in self._below(self._root(), key, yaml.MappingNode).value}

    def append_item(self, key: str, item: str) -> None:
        """Append an item, written as lines that begin with `- `, to the list below a key of the file."""
        self._append(self._below(self._root(), key, yaml.SequenceNode), item)

    def append_pair(self, key: str, pair: str) -> None:
        """Append a pair, written as lines, to the mapping below a key of the file."""
        self._append(self._below(self._root(), key, yaml.MappingNode), pair)

    def append_name(self, item: Any, key: str, name: str) -> None:
        """Append a name to the list below `key` of an item."""
        names = self._below(item, key, yaml.SequenceNode)
        if not names.flow_style:
            self._append(names, f"- {name}\n")
            return
        # A list on one line, `[a, b]`: the name goes before the bracket.
        inside = self.text[names.start_mark.index + 1 : names.end_mark.index - 1].rstrip()
        # Neither an empty list nor one with a comma at its end needs another comma.
        comma = ", " if inside.strip() and not inside.endswith(",") else ""
        self._put(names.start_mark.index + 1 + len(inside), names.end_mark.index - 1, f"{comma}{name}")

    def _root(self) -> Any:
        try:
            return yaml.compose(self.text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            raise ScaffoldError(f"{self._path} is not YAML: {str(error).splitlines()[0]}") from None

    def _below(self, mapping: Any, key: str, kind: type[Any]) -> Any:
        value = value_of(mapping, key)
        if not isinstance(value, kind):
            what = "list" if kind is yaml.SequenceNode else "mapping"
            raise ScaffoldError(f"{self._path} has no {what} `{key}` where one is expected; add it and repeat")
        return value

    def _append(self, collection: Any, lines: str) -> None:
        # There is no line behind which an entry could be inserted.
        if collection.flow_style:
            raise ScaffoldError(
                f"{self._path}:{collection.start_mark.line + 1} is written on one line; put each entry on its own line "
                "and repeat"
            )
        # The parser's end of a block is at the next key; blank lines before that key belong to it.
        end = len(self.text[: collection.end_mark.index].rstrip())
        added = indent(lines.rstrip("\n"), " " * collection.start_mark.column)
        self._put(end, end, f"\n{added}")
        # The list was the end of a file without a last newline.
        if not self.text.endswith("\n"):
            self.text += "\n"

    def _put(self, start: int, end: int, added: str) -> None:
        self.text = self.text[:start] + added + self.text[end:]


def value_of(mapping: Any, key: str) -> Any:
    """Return the node below a key of a mapping, or None."""
    if not isinstance(mapping, yaml.MappingNode):
        return None
    return next((value for name, value in mapping.value if name.value == key), None)


def text_of(mapping: Any, key: str) -> str:
    """Return the text below a key of a mapping; empty if there is none."""
    value = value_of(mapping, key)
    return str(value.value) if isinstance(value, yaml.ScalarNode) else ""
