"""Reads the fields of one mapping strictly: types are checked, unknown fields are reported, problems are collected.

A wrong field yields its fallback, so that reading continues and the author sees all problems at once. If any problem is
an error, the values are discarded.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, TypeVar

from sidecar.core.definitions.files.documents import SourceLocation, Steps
from sidecar.core.definitions.files.problems import Problem, quoted

Choice = TypeVar("Choice", bound=StrEnum)

# At most nine digits, so that no `timedelta` overflows.
DURATION: Final = re.compile(r"([0-9]{1,9})(ms|s|m|h)\Z")
MILLISECONDS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
LONGEST: Final = timedelta(hours=24)
# US dollars. Far above every real price, so that a price in a wrong unit is noticed.
DEAREST: Final = 1_000_000_000
PRICE_DECIMALS: Final = 6


class Fields:
    """The fields of the mapping at `place`.

    Args:
        place: the place of the mapping. Another type there is a problem and is read as an empty mapping.
        known: all permitted keys.
        problems: where problems are added.
    """

    def __init__(self, place: SourceLocation, known: Sequence[str], problems: list[Problem]) -> None:
        """Check the keys. The values are checked when they are read."""
        self.place = place
        self._problems = problems
        value = place.value
        self._is_mapping = isinstance(value, dict)
        self._value: Mapping[str, Any] = value if self._is_mapping else {}
        if not self._is_mapping:
            what = "is empty; it" if value is None else f"is {kind_of(place)}; it"
            problems.append(place.error(f"{what} must be a mapping of fields"))
        problems.extend(
            place.at(key).error(f"unknown field {quoted(key)}", key=key, choices=known)
            for key in self._value
            # An unknown key is an error and not ignored: it is mostly a typing error, and the setting would have no
            # effect.
            if key not in known
        )

    def has(self, key: str) -> bool:
        """Whether the field is there and not null."""
        return self._value.get(key) is not None

    def note(self, key: str, text: str) -> None:
        """Add a problem of the field."""
        self._problems.append(self.place.at(key).error(text))

    def note_at(self, steps: Steps, text: str) -> None:
        """Add a problem of something inside a field."""
        self._problems.append(self.place.at(*steps).error(text))

    def text(self, key: str) -> str:
        """Return a required, non-blank text; empty if it is missing or wrong."""
        if not self.has(key):
            # A value that is no mapping is reported once, and not once more for each field.
            if self._is_mapping:
                self.note(key, "is required")
            return ""
        value = self.optional_text(key)
        return value or ""

    def optional_text(self, key: str) -> str | None:
        """Return a non-blank text, or None."""
        if not self.has(key):
            return None
        value = self._value[key]
        if not isinstance(value, str):
            self.note(key, f"must be text, not {kind_of(self.place.at(key))}")
            return None
        if not value.strip():
            self.note(key, "is empty")
            return None
        return value

    def matching(self, key: str, pattern: re.Pattern[str], rule: str) -> str | None:
        """Return an optional text that matches a pattern, or None. `rule` describes the pattern in words."""
        value = self.optional_text(key)
        if value is not None and not pattern.match(value):
            self.note(key, f"{quoted(value)} {rule}")
            return None
        return value

    def address(self, key: str, pattern: re.Pattern[str], rule: str) -> str | None:
        """Like `matching`, for texts that may contain a password: messages do not repeat the text."""
        value = self.optional_text(key)
        if value is not None and not pattern.match(value):
            # Without the value: an address may contain a password.
            self.note(key, rule)
            return None
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of different, non-blank texts; empty if missing or wrong. Positions are kept."""
        if not self.has(key):
            return ()
        value = self._value[key]
        if not isinstance(value, list):
            self.note(key, f"must be a list, not {kind_of(self.place.at(key))}")
            return ()
        seen: dict[str, int] = {}
        for position, item in enumerate(value):
            place = self.place.at(key, position)
            if not isinstance(item, str) or not item.strip():
                wrong = "is empty" if isinstance(item, str) else f"must be text, not {kind_of(place)}"
                self._problems.append(place.error(wrong))
            elif item in seen:
                twice = f"{quoted(item)} stands here twice, first at [{seen[item]}]"
                self._problems.append(place.error(twice, key=item))
            else:
                seen[item] = position
        # Wrong items stay as empty texts, so that later problems name the right positions.
        return tuple(item if isinstance(item, str) else "" for item in value)

    def flag(self, key: str, fallback: bool) -> bool:
        """Return a truth value; `fallback` if it is missing or wrong."""
        value = self._value.get(key)
        if value is None:
            return fallback
        if not isinstance(value, bool):
            self.note(key, f"must be true or false, not {kind_of(self.place.at(key))}")
            return fallback
        return value

    def whole(self, key: str, least: int) -> int | None:
        """Return an optional whole number that is at least `least` and fits 31 bits."""
        value = self._value.get(key)
        if value is None:
            return None
        # YAML reads `yes` as a truth value, which is an `int` in Python.
        if not isinstance(value, int) or isinstance(value, bool):
            self.note(key, f"must be a whole number, not {kind_of(self.place.at(key))}")
            return None
        if not least <= value < 2**31:
            self.note(key, f"must be at least {least} and below {2**31}, not {value}")
            return None
        return value

    def price(self, key: str) -> float | None:
        """Return an optional number of US dollars, not negative."""
        value = self._value.get(key)
        if value is None:
            return None
        # As in `whole`: a truth value is an `int` in Python.
        if not isinstance(value, int | float) or isinstance(value, bool):
            self.note(key, f"must be a number, not {kind_of(self.place.at(key))}")
            return None
        if not 0 <= value < DEAREST:
            self.note(key, f"must be at least 0 and below {DEAREST}, not {value}")
            return None
        # By the decimal text: the binary value of 0.1 has more than six decimals.
        if Decimal(repr(value)) % Decimal(1).scaleb(-PRICE_DECIMALS):
            self.note(key, f"must have at most {PRICE_DECIMALS} decimals, so that costs are exact, not {value!r}")
            return None
        return float(value)

    def duration(self, key: str) -> timedelta | None:
        """Return an optional length of time, written as `500ms`, `90s`, `2m` or `1h`; above 0, at most 24 h."""
        if not self.has(key):
            return None
        value = self._value[key]
        found = DURATION.match(value) if isinstance(value, str) else None
        if found is None:
            shown = quoted(value) if isinstance(value, str) else kind_of(self.place.at(key))
            self.note(key, f"must be a time with its unit, such as 500ms, 90s or 2m, not {shown}")
            return None
        length = timedelta(milliseconds=int(found[1]) * MILLISECONDS[found[2]])
        if not timedelta(0) < length <= LONGEST:
            self.note(key, f"must be longer than 0 and at most 24h, not {value}")
            return None
        return length

    def choice(self, key: str, choices: type[Choice]) -> Choice | None:
        """Return a required word of a fixed set; None if it is missing or wrong."""
        value = self.text(key)
        if not value:
            return None
        known = [choice.value for choice in choices]
        if value not in known:
            text = f"unknown value {quoted(value)}, not one of {', '.join(known)}"
            self._problems.append(self.place.at(key).error(text, key=value, choices=known))
            return None
        return choices(value)

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Return a mapping with unchecked content; empty if it is missing or wrong."""
        if not self.has(key):
            return {}
        value = self._value[key]
        if not isinstance(value, dict):
            self.note(key, f"must be a mapping, not {kind_of(self.place.at(key))}")
            return {}
        return value

    def section(self, key: str, known: Sequence[str]) -> "Fields | None":
        """Return the fields of a nested mapping, or None if there is none."""
        # The nested fields share the list of problems, so that all of them are reported together.
        return Fields(self.place.at(key), known, self._problems) if self.has(key) else None


def kind_of(place: SourceLocation) -> str:
    """Return the type of the value at a place in YAML's words, with advice if quotes would make it a text."""
    written = place.document.written.get(place.steps)
    match place.value:
        case None:
            return "nothing"
        case bool() | int() | float() if written is not None:
            kind = "truth value" if isinstance(place.value, bool) else "number"
            return f"the {kind} {written} (in quotes it is text)"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case str() as text:
            return f"the text {quoted(text)}"
        case other:
            return quoted(str(other))
