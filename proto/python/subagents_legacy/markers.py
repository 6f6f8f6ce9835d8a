"""Takes `<component type="...">{json}</component>` markers out of a text. Source: PC1-D-50, PC1 R-2.

The JSON is read as JSON, not searched for its end: a component may hold the text `</component>` in a string. What is
damaged is taken out as well, for a body holds narration only, and is told with its place; the text that was given still
has it. One pass; the time grows with the length of the text, whatever is in it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final, NoReturn

SUSPECT: Final = re.compile(r"<component\b|</component\s*>|```\s*json\b", re.IGNORECASE)
OPENING: Final = re.compile(r"<component\b([^<>]*)>", re.IGNORECASE)
CLOSING: Final = re.compile(r"\s*</component\s*>", re.IGNORECASE)
TYPE: Final = re.compile(r"""(?:^|\s)type\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
FENCE: Final = "```"
SPACE: Final = re.compile(r"\s*")
GAP: Final = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")


@unique
class Damage(StrEnum):
    """Why a piece of text is neither narration nor a component."""

    TAG = "tag"
    """`<component` without an end of the tag, or `</component>` without a beginning."""
    TYPE = "type"
    """The tag names no type."""
    JSON = "json"
    """What follows the tag is not a JSON object or list."""
    UNCLOSED = "unclosed"
    """No `</component>` follows the JSON."""
    BLOCK = "block"
    """A fenced `json` block: nothing says which component it is."""
    BODY = "body"
    """The whole text is JSON: nothing says which component it is."""


@dataclass(frozen=True, slots=True)
class Marker:
    """One component. `offset` in characters of the text that was given; `data_json` byte for byte as it stood there."""

    type: str
    data_json: str
    offset: int


@dataclass(frozen=True, slots=True)
class Defect:
    """What was left out, besides components; offset and length in characters of the text that was given."""

    damage: Damage
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class SplitText:
    """A legacy text, taken apart.

    Attributes:
        narration: what is left; holds no component data.
        markers, defects: in the order of the text.
    """

    narration: str
    markers: Sequence[Marker]
    defects: Sequence[Defect]


def split_markers(text: str) -> SplitText:
    """Take a text apart into narration, components, and what is damaged; never raises."""
    if _is_json(text):
        return SplitText("", (), (Defect(Damage.BODY, 0, len(text)),))
    kept: list[str] = []
    markers: list[Marker] = []
    defects: list[Defect] = []
    end = 0
    for begin, piece_end, found in _pieces(text):
        kept.append(text[end:begin])
        end = piece_end
        if isinstance(found, Marker):
            markers.append(found)
        else:
            defects.append(Defect(found, begin, piece_end - begin))
    kept.append(text[end:])
    narration = _joined(kept)
    if _is_json(narration) or SUSPECT.search(narration):  # joining may bring together what was apart
        defects.append(Defect(Damage.BODY, 0, len(text)))
        narration = ""
    return SplitText(narration, tuple(markers), tuple(defects))


def _pieces(text: str) -> Iterator[tuple[int, int, Marker | Damage]]:
    """Go through what is not narration: where it begins and ends, and what it is."""
    at = 0
    while (suspect := SUSPECT.search(text, at)) is not None:
        begin = suspect.start()
        at, found = _piece(text, begin, suspect)
        yield begin, at, found


def _piece(text: str, begin: int, suspect: re.Match[str]) -> tuple[int, Marker | Damage]:
    if suspect[0].startswith(FENCE):
        return _end_of_fence(text, suspect.end()), Damage.BLOCK
    opening = OPENING.match(text, begin)
    if opening is None:
        stray = suspect[0].startswith("</")
        return (suspect.end() if stray else _before_next(text, suspect.end())), Damage.TAG
    named = TYPE.search(opening[1])
    kind = (named[1] or named[2] or "").strip() if named else ""
    data_begin = _after_space(text, opening.end())
    data_end = _end_of_json(text, data_begin)
    if data_end is None:
        return _end_of_broken(text, opening), Damage.JSON
    closing = CLOSING.match(text, data_end)
    if closing is None:
        return data_end, Damage.UNCLOSED
    return closing.end(), Marker(kind, text[data_begin:data_end], begin) if kind else Damage.TYPE


def _end_of_json(text: str, begin: int) -> int | None:
    """Return where the object or list at `begin` ends; None if none is there."""
    if text[begin : begin + 1] not in {"{", "["}:
        return None
    try:
        _, end = _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None
    return int(end)


def _end_of_broken(text: str, opening: re.Match[str]) -> int:
    """Return where a marker with unreadable contents ends: after its closing tag, else before the next marker."""
    if opening[1].rstrip().endswith("/"):
        return opening.end()
    following = SUSPECT.search(text, opening.end())
    if following is None:
        return len(text)
    return following.end() if following[0].startswith("</") else following.start()


def _end_of_fence(text: str, after: int) -> int:
    end = text.find(FENCE, after)
    return len(text) if end < 0 else end + len(FENCE)


def _before_next(text: str, after: int) -> int:
    following = SUSPECT.search(text, after)
    return len(text) if following is None else following.start()


def _after_space(text: str, begin: int) -> int:
    found = SPACE.match(text, begin)
    return found.end() if found else begin


def _joined(parts: Sequence[str]) -> str:
    """Put narration together again; the blank lines around what is gone become one."""
    if len(parts) == 1:
        return parts[0]
    return GAP.sub("\n\n", "".join(parts)).strip()


def _is_json(text: str) -> bool:
    stripped = text.strip()
    if not (stripped.startswith(("{", "[")) and stripped.endswith(("}", "]"))):
        return False
    try:
        _DECODER.decode(stripped)
    except (ValueError, RecursionError):
        return False
    return True


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_number)
