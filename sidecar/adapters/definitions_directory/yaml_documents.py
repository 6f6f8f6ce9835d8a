"""Parses one YAML file of a configuration into a `Document`.

It reads the parser's events, so that deep nesting, aliases and tags are refused before any object is built from them.
Plain words that YAML 1.1 and 1.2 read differently (`no`, `012`, `1:30`, a date) must be quoted: either reading would
surprise some authors.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml
from msgspec import Struct, field

from sidecar.core.decoding import DecodeError, from_utf8
from sidecar.core.definitions.files.documents import Document, Steps
from sidecar.core.definitions.files.names import MODEL_KEY
from sidecar.core.definitions.files.problems import Problem, printable, quoted

BYTES_AT_MOST: Final = 256 * 1024
DEPTH_AT_MOST: Final = 20
"""Levels of lists and mappings. `_value` recurses once for each level, so this also bounds the stack."""
PROBLEMS_AT_MOST: Final = 50
"""After this number of problems, the rest of a file is not read."""

# The parser in C if PyYAML was built with it, because it is faster.
PARSER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
UNPRINTABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
TRUTHS: Final = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})\Z")
FRACTION: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})\.[0-9]{1,18}([eE][-+]?[0-9]{1,2})?\Z")
DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
AMBIGUOUS: Final = re.compile(
    r"(?i:y|n|yes|no|on|off)\Z"  # truth values of YAML 1.1
    r"|[-+]?(0[0-9_]+|0[xob][0-9a-f_]+|[0-9][0-9_]*_[0-9_]*|\.[0-9][0-9_]*|[0-9]{19,})\Z"  # octal, hex, digit groups
    r"|[-+]?[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?\Z"  # what is left of numbers: +1, 1., 1e3
    r"|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?\Z"  # base 60
    r"|[-+]?\.(?i:inf)\Z|\.(?i:nan)\Z"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?\Z"  # dates
    r"|[=<]{1,2}\Z"  # value and merge keys
)


class _Unreadable(Exception):
    """The file cannot be parsed into a document.

    Args:
        line: the line of the cause, counted from 1; None: not known.
        text: the cause, as the end of a sentence whose subject is the file.
    """

    def __init__(self, line: int | None, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


class Parsed(Struct):
    """The result of reading one file: a document, problems, or both if reading could continue after a problem."""

    document: Document | None
    problems: list[Problem] = field(default_factory=list)


def parse(content: bytes, path: str) -> Parsed:
    """Parse one file. Never raises: each fault is a problem of the result.

    Args:
        content: the file's bytes.
        path: relative to the configuration root, for messages.
    """
    builder = _Builder(path)
    try:
        value = builder.build(_text_of(content))
    except _Unreadable as refusal:
        return Parsed(None, [*builder.problems, Problem(path, refusal.line, "", refusal.text)])
    return Parsed(Document(path, value, builder.lines, builder.written), builder.problems)


def _text_of(content: bytes) -> str:
    if len(content) > BYTES_AT_MOST:
        raise _Unreadable(None, f"is larger than {BYTES_AT_MOST // 1024} KiB")
    try:
        text = from_utf8(content)
    except DecodeError as error:
        raise _Unreadable(content[: error.at].count(b"\n") + 1, "is not UTF-8 from here on") from None
    # Some editors write a byte order mark at the beginning. It is not part of the content.
    text = text.removeprefix("\ufeff")
    match = UNPRINTABLE.search(text)
    if match is not None:
        line = text.count("\n", 0, match.start()) + 1
        raise _Unreadable(line, f"holds the control character {ascii(match[0])[1:-1]}")
    return text


class _Builder:
    """Builds one document from the parser's events.

    Attributes:
        lines: the line of each value, counted from 1, by its position, i.e. the keys and indexes that lead to it.
        written: the original text of each null, truth value and number, by its position.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines: dict[Steps, int] = {}
        self.written: dict[Steps, str] = {}
        # Problems by position. Their labels are computed at the end, when the ids of entries are known.
        self._notes: list[tuple[int, Steps, str]] = []
        self._value_so_far: Any = None

    @property
    def problems(self) -> list[Problem]:
        """The problems found so far. Their texts name entries of lists by their ids."""
        return [Problem(self.path, line, _label(steps, self._value_so_far), text) for line, steps, text in self._notes]

    def build(self, text: str) -> Any:
        """Return the one document in `text`; None for an empty file."""
        try:
            events = self._refusing_forbidden(yaml.parse(text, Loader=PARSER))
            for event in events:
                if isinstance(event, yaml.NodeEvent):
                    self._value_so_far = self._value(event, events, ())
            return self._value_so_far
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = None if mark is None else mark.line + 1
            raise _Unreadable(line, f"is not YAML: {printable(error.problem or error.context or 'unknown')}") from None
        except yaml.YAMLError:
            raise _Unreadable(None, "is not YAML") from None

    def _refusing_forbidden(self, events: Iterator[yaml.Event]) -> Iterator[yaml.Event]:
        """Yield the events, and raise `_Unreadable` at a feature of YAML that is not allowed."""
        depth = documents = 0
        for event in events:
            line = _line_of(event)
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _Unreadable(line, "holds a second document; keep one per file")
            elif isinstance(event, yaml.NodeEvent) and event.anchor is not None:
                sign = "*" if isinstance(event, yaml.AliasEvent) else "&"
                raise _Unreadable(line, f"uses {quoted(sign + event.anchor)}; aliases and anchors are not allowed")
            elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
                raise _Unreadable(line, f"uses the tag {quoted(event.tag)}; tags are not allowed")
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > DEPTH_AT_MOST:
                    raise _Unreadable(line, f"is nested deeper than {DEPTH_AT_MOST} levels")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            yield event

    def _value(self, event: yaml.Event, events: Iterator[yaml.Event], steps: Steps) -> Any:
        # Not overwritten: for a pair of a mapping, `_mapping` has set the line of its key, which is the better place.
        self.lines.setdefault(steps, _line_of(event))
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(events, steps)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(events, steps)
        if not isinstance(event, yaml.ScalarEvent):
            raise _Unreadable(_line_of(event), "is not YAML")
        return self._scalar(event, steps)

    def _sequence(self, events: Iterator[yaml.Event], steps: Steps) -> list[Any]:
        items: list[Any] = []
        for event in events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self._value(event, events, (*steps, len(items))))
        return items

    def _mapping(self, events: Iterator[yaml.Event], steps: Steps) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key = self._key(event, steps)
            repeated = key in fields
            if repeated:
                first = self.lines[*steps, key]
                self._note(event, (*steps, key), f"{quoted(key)} stands here twice, first on line {first}")
            else:
                self.lines[*steps, key] = _line_of(event)
            # The value of a repeated key is read, too. Otherwise its first event would be read as the next key.
            value = self._value(next(events), events, (*steps, key) if not repeated else (*steps, key, "(again)"))
            fields.setdefault(key, value)
        return fields

    def _key(self, event: yaml.Event, steps: Steps) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            raise _Unreadable(_line_of(event), "has a list or mapping as a key; keys must be text")
        key = str(event.value)
        if event.implicit[0] and (AMBIGUOUS.match(key) or key in NULLS or key in TRUTHS or WHOLE.match(key)):
            self._note(event, (*steps, key), f"{quoted(key)} is not text to YAML; put the key in quotes")
        return key

    def _scalar(self, event: yaml.ScalarEvent, steps: Steps) -> Any:
        text = str(event.value)
        # A quoted scalar is a text. Only plain scalars can be numbers or truth values.
        if not event.implicit[0]:
            if UNPRINTABLE.search(text):
                self._note(event, steps, "holds an escaped control character")
                return ""
            return text
        if text in NULLS:
            value: Any = None
        elif text in TRUTHS:
            value = TRUTHS[text]
        elif WHOLE.match(text):
            value = int(text)
        elif FRACTION.match(text):
            value = float(text)
        else:
            if AMBIGUOUS.match(text):
                self._note(
                    event, steps, f"{quoted(text)} means different things to different YAML readers; {_advice(text)}"
                )
            return text
        self.written[steps] = text
        return value

    def _note(self, event: yaml.Event, steps: Steps, text: str) -> None:
        line = _line_of(event)
        self._notes.append((line, steps, text))
        if len(self._notes) >= PROBLEMS_AT_MOST:
            raise _Unreadable(line, f"has {PROBLEMS_AT_MOST} problems up to here; the rest was not read")


def _line_of(event: yaml.Event) -> int:
    """Return the line of an event, counted from 1."""
    # Events of a text always have marks. Only the annotations of the parser allow None.
    return 1 if event.start_mark is None else event.start_mark.line + 1


def _advice(text: str) -> str:
    truth = {"y": "true", "yes": "true", "on": "true", "n": "false", "no": "false", "off": "false"}.get(text.lower())
    if truth is not None:
        return f"put it in quotes, or write {truth}"
    return "put it in quotes" if DATE.match(text) else "put it in quotes, or write a plain decimal number"


def _label(steps: Steps, value: Any) -> str:
    """Return a name of a position for messages, e.g. `agents.shop.tools[2]`. Entries with an id are named by it."""
    label = ""
    for step in steps:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            value = None
        name = value.get("id") if isinstance(step, int) and isinstance(value, dict) else None
        if isinstance(name, str) and MODEL_KEY.match(name):
            label += f".{name}"
        else:
            label += f"[{step}]" if isinstance(step, int) else f".{step}" if label else step
    return label
