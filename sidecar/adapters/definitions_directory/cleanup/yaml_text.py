"""Changes a YAML file as text, so that comments, order and spelling of all other lines stay as they are.

The YAML parser only provides positions; no YAML is generated from data. A change that would affect other content is
refused, and a person must make it by hand.
"""

import re
from typing import Any, Final

import yaml

from sidecar.core.rollout.checkout_inspection import CheckoutRefused

COMMENT: Final = re.compile(r"\s*#")
OVERRIDE: Final = re.compile(r"\s*#\s*minor-change:")
SAFE: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
PLAIN: Final = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
BY_HAND: Final = "stands so that it cannot be changed without its surroundings; change it by hand"


class YamlText:
    """The text of one file. Each method that changes it replaces `text`.

    In all methods `steps` are the keys and indexes that lead to a value, e.g. `"agents", 2, "tools"`. A method raises
    `CheckoutRefused` if the change would affect other content.

    Args:
        text: the content of the file, without a byte order mark.
        path: the path of the file, for messages.
    """

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self._path = path
        # New lines get the line ends of the file, so that a file with Windows line ends does not get both kinds.
        self._newline = "\r\n" if "\r\n" in text else "\n"

    @property
    def data(self) -> Any:
        """The parsed file; every scalar is a text. Raises `CheckoutRefused` if the text is not YAML."""
        try:
            return yaml.load(self.text, Loader=PLAIN)  # noqa: S506  builds text, lists and dicts only
        except yaml.YAMLError as error:
            raise self._refusal(f"is not YAML: {str(error).splitlines()[0]}") from None

    def line_of(self, *steps: str | int) -> int:
        """Return the line of a value, counted from 1."""
        return int(self._at(steps).start_mark.line) + 1

    def replace(self, steps: tuple[str | int, ...], value: str) -> None:
        """Replace the scalar at `steps`."""
        node = self._at(steps)
        if not isinstance(node, yaml.ScalarNode):
            raise self._refusal(BY_HAND, node)
        self._replace_range(node.start_mark.index, node.end_mark.index, value)

    def add_after(self, steps: tuple[str | int, ...], key: str, value: str) -> None:
        """Add the pair `key: value` after the pair at `steps`, in the same mapping."""
        mapping, node = self._at(steps[:-1]), self._at(steps)
        if mapping.flow_style:
            self._replace_range(node.end_mark.index, node.end_mark.index, f", {key}: {value}")
            return
        at = self._line_end(node.end_mark.index)
        indent = " " * mapping.start_mark.column
        self._replace_range(at, at, f"{self._newline}{indent}{key}: {value}")

    def comment(self, entry: tuple[str | int, ...], key: str, text: str) -> None:
        """Insert a comment line above the pair `key` of a list entry.

        It is inserted above the entry itself if the entry has no such pair, or has the pair on its first line.
        """
        mapping = self._at(entry)
        pair_key = next((key_node for key_node, _ in mapping.value if key_node.value == key), None)
        # On the first line, the dash of the list is before the pair, so a comment above the pair is above the entry.
        above_pair = (
            pair_key is not None and not mapping.flow_style and pair_key.start_mark.line != mapping.start_mark.line
        )
        mark = pair_key.start_mark if above_pair and pair_key is not None else mapping.start_mark
        line, column = mark.line, mark.column
        if not above_pair:
            column = self._at(entry[:-1]).start_mark.column
            line = self._dash_line(line, column)
        at = self._line_start(line)
        self._replace_range(at, at, f"{' ' * column}# {text}{self._newline}")

    def remove(self, *steps: str | int) -> None:
        """Remove an item of a list or a pair of a mapping. An empty list or mapping is written as `[]` or `{}`."""
        parent, at = self._at(steps[:-1]), steps[-1]
        index = at if isinstance(at, int) else self._index(parent, at)
        # The only item cannot simply be removed: a key without a value means null.
        if len(parent.value) == 1:
            self._write_empty(steps[:-1], parent, _name_of(parent, index))
        elif parent.flow_style:
            self._remove_flow(parent, index)
        else:
            self._remove_block(parent, index, _name_of(parent, index))

    def _write_empty(self, steps: tuple[str | int, ...], node: Any, name: str) -> None:
        empty = "[]" if isinstance(node, yaml.SequenceNode) else "{}"
        if node.flow_style:
            self._replace_range(node.start_mark.index, node.end_mark.index, empty)
            return
        if not steps or isinstance(steps[-1], int):
            raise self._refusal(BY_HAND, node)
        mapping = self._at(steps[:-1])
        key = next(one for one, _ in mapping.value if one.value == steps[-1])
        colon = re.compile(r"\s*:").match(self.text, key.end_mark.index)
        if colon is None:
            raise self._refusal(BY_HAND, node)
        # The lines first: they are below the colon, so its position stays valid.
        self._cut_lines(*self._extent(node, 0, name))
        self._replace_range(colon.end(), colon.end(), f" {empty}")

    def _remove_flow(self, parent: Any, index: int) -> None:
        spans = [_span(child) for child in parent.value]
        begin, end = spans[index]
        if index + 1 < len(spans):
            self._replace_range(begin, spans[index + 1][0], "")
        # The last item is removed together with the comma before it, unless a comment is between them.
        elif "#" in self.text[spans[index - 1][1] : begin]:
            self._replace_range(begin, end, "")
        else:
            self._replace_range(spans[index - 1][1], end, "")

    def _remove_block(self, parent: Any, index: int, name: str) -> None:
        """Remove the lines of a child, and the blank lines on one side of it."""
        lines = self.text.splitlines()
        first, last = self._extent(parent, index, name)
        if index + 1 < len(parent.value):
            while last + 1 < len(lines) and not lines[last + 1].strip():
                last += 1
        else:
            while first and not lines[first - 1].strip():
                first -= 1
        self._cut_lines(first, last)

    def _extent(self, parent: Any, index: int, name: str) -> tuple[int, int]:
        """Return the numbers of the first and last line of a child of a block collection, counted from 0.

        They include comments inside the child, and comments above it that contain its name.
        """
        lines, column = self.text.splitlines(), parent.start_mark.column
        first, last = self._first_line(parent, index), self._last_line(parent.value[index])
        while last + 1 < len(lines) and _is_comment_beyond(lines[last + 1], column):
            last += 1
        named = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
        while first and _is_comment_at(lines[first - 1], column) and self._belongs_to_child(lines[first - 1], named):
            first -= 1
        return first, last

    def _belongs_to_child(self, line: str, named: re.Pattern[str]) -> bool:
        """Return whether a comment line above a child belongs to it. `named`: matches the name of the child."""
        return bool(OVERRIDE.match(line) or named.search(line))

    def _first_line(self, parent: Any, index: int) -> int:
        """Return the number of a child's first line. Refuses a child that does not begin its line."""
        child, column = parent.value[index], parent.start_mark.column
        if isinstance(parent, yaml.SequenceNode):
            return self._dash_line(child.start_mark.line, column)
        line = int(child[0].start_mark.line)
        # Something else is on the same line, e.g. the dash of a list.
        if self.text[self._line_start(line) : child[0].start_mark.index].strip():
            raise self._refusal(BY_HAND, child[0])
        return line

    def _dash_line(self, line: int, column: int) -> int:
        """Return the number of the line with the dash of a list item, at or above `line`."""
        # The content of an item may begin below its dash, e.g. after a comment.
        lines = self.text.splitlines()
        while line >= 0:
            if lines[line][:column].strip():
                break
            if lines[line][column : column + 1] == "-":
                return line
            line -= 1
        raise CheckoutRefused(f"{self._path}: an entry of a list {BY_HAND}")

    def _last_line(self, child: Any) -> int:
        """Return the number of the last line with content of a child."""
        end = max(_ends(child))
        lines = self.text.splitlines()
        # With a character at the end, so that a line end before it counts as a further line.
        last = len((self.text[:end] + "|").splitlines()) - 1
        # The end of a block of text (`|` or `>`) is the beginning of the next line.
        if end and self.text[end - 1] in "\r\n":
            last -= 1
        last = min(last, len(lines) - 1)
        while last and not lines[last].strip():
            last -= 1
        return last

    def _at(self, steps: tuple[str | int, ...]) -> Any:
        try:
            # Parsed again for each change, because each change moves the positions of all later values.
            node: Any = yaml.compose(self.text, Loader=SAFE)
        except yaml.YAMLError as error:
            raise self._refusal(f"is not YAML: {str(error).splitlines()[0]}") from None
        for step in steps:
            node = node.value[step] if isinstance(step, int) else node.value[self._index(node, step)][1]
        return node

    def _index(self, mapping: Any, key: str) -> int:
        return next(number for number, (one, _) in enumerate(mapping.value) if one.value == key)

    def _line_start(self, line: int) -> int:
        return sum(len(one) for one in self.text.splitlines(keepends=True)[:line])

    def _line_end(self, index: int) -> int:
        match = re.compile(r"\r?\n|\Z").search(self.text, index)
        return len(self.text) if match is None else match.start()

    def _cut_lines(self, first: int, last: int) -> None:
        self._replace_range(self._line_start(first), self._line_start(last + 1), "")

    def _replace_range(self, begin: int, end: int, new: str) -> None:
        self.text = self.text[:begin] + new + self.text[end:]

    def _refusal(self, what: str, node: Any = None) -> CheckoutRefused:
        line = "" if node is None else f":{node.start_mark.line + 1}"
        return CheckoutRefused(f"{self._path}{line}: {what}")


def _name_of(parent: Any, index: int) -> str:
    """Return the name of a child: its key, its id or its text. Without one, return a text that no file contains."""
    node = parent.value[index]
    if isinstance(node, tuple):
        return str(node[0].value)
    if isinstance(node, yaml.MappingNode):
        return next((value.value for key, value in node.value if key.value == "id"), "\0")
    return str(node.value) if isinstance(node, yaml.ScalarNode) else "\0"


def _span(child: Any) -> tuple[int, int]:
    """Return begin and end of a child in the text. The child of a mapping is a pair of nodes, key and value."""
    first, last = child if isinstance(child, tuple) else (child, child)
    return first.start_mark.index, last.end_mark.index


def _ends(child: Any) -> list[int]:
    """Return the ends of all scalars and flow collections in a child."""
    # The parser's end of a block collection includes the blank lines and comments after it, so it is not used.
    if isinstance(child, tuple):
        return [child[0].end_mark.index + 1, *_ends(child[1])]
    if isinstance(child, yaml.ScalarNode) or child.flow_style:
        return [child.end_mark.index]
    return [end for one in child.value for end in _ends(one)]


def _is_comment_at(line: str, column: int) -> bool:
    return bool(COMMENT.match(line)) and len(line) - len(line.lstrip()) == column


def _is_comment_beyond(line: str, column: int) -> bool:
    return bool(COMMENT.match(line)) and len(line) - len(line.lstrip()) > column
