"""The constraints of a setting's value (bounds, lengths, a pattern), and the check of a value against them."""

import re
from collections.abc import Callable, Sized
from datetime import timedelta
from typing import Any

from sidecar.settings.values import duration_text


class ValueConstraints:
    """The constraints of a setting. None: no such constraint.

    Attributes:
        ge: the value must be at least this.
        gt: the value must be more than this.
        le: the value must be at most this.
        min_length, max_length: length of a text in characters, of a list or table in entries.
        pattern: a regular expression that a text must match from its beginning.
        check: raises `ValueError` for an invalid value.
    """

    __slots__ = ("check", "ge", "gt", "le", "max_length", "min_length", "pattern")

    def __init__(self, **limits: Any) -> None:
        self.ge: Any = limits.get("ge")
        self.gt: Any = limits.get("gt")
        self.le: Any = limits.get("le")
        self.min_length: int | None = limits.get("min_length")
        self.max_length: int | None = limits.get("max_length")
        self.pattern: str | None = limits.get("pattern")
        self.check: Callable[[Any], None] | None = limits.get("check")


def unfit(limits: ValueConstraints, value: Any) -> str | None:
    """Return the constraint that a value violates, as a text such as "must be at least 1"; None: it violates none.

    The value must already have the kind of the setting. None, an unset optional setting, violates no constraint.
    """
    if value is None:
        return None
    # Only the first violated constraint: one message for one value.
    return _bounds_problem(limits, value) or _length_problem(limits, value) or _form_problem(limits, value)


def _bounds_problem(limits: ValueConstraints, value: Any) -> str | None:
    if limits.ge is not None and not value >= limits.ge:
        return f"must be at least {_bound_text(limits.ge)}"
    if limits.gt is not None and not value > limits.gt:
        return f"must be more than {_bound_text(limits.gt)}"
    if limits.le is not None and not value <= limits.le:
        return f"must be at most {_bound_text(limits.le)}"
    return None


def _length_problem(limits: ValueConstraints, value: Sized) -> str | None:
    unit = "character" if isinstance(value, str) else "entry"
    if limits.min_length is not None and len(value) < limits.min_length:
        return f"must have at least {_count_text(limits.min_length, unit)}"
    if limits.max_length is not None and len(value) > limits.max_length:
        return f"must have at most {_count_text(limits.max_length, unit)}"
    return None


def _form_problem(limits: ValueConstraints, value: Any) -> str | None:
    if limits.pattern is not None and not re.match(limits.pattern, value):
        return f"must match {limits.pattern}"
    # After the pattern, so that a check can rely on the form of the text.
    if limits.check is not None:
        try:
            limits.check(value)
        except ValueError as wrong:
            return str(wrong)
    return None


def _count_text(number: int, unit: str) -> str:
    many = "entries" if unit == "entry" else f"{unit}s"
    return f"{number} {unit if number == 1 else many}"


def _bound_text(bound: Any) -> str:
    return duration_text(bound) if isinstance(bound, timedelta) else str(bound)
