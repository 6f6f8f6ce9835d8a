"""Quantities as people write them, in options and in scenario files. Each raises `ValueError` with what is allowed."""

import re
from collections.abc import Sequence
from typing import Final

UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
SIZES: Final = {"": 1, "B": 1, "kB": 1000, "KiB": 1024, "MB": 1000_000, "MiB": 1024 * 1024}
MOST_SIZE: Final = 4 * 1024 * 1024


def duration(text: str) -> float:
    """Return seconds, of e.g. `500ms`, `10s`, `2m`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if found is None:
        raise ValueError(f"{text!r} is no time; write e.g. 500ms, 10s or 2m")
    return float(found[1]) * UNITS[found[2]]


def share(text: str) -> float:
    """Return a share between 0 and 1, of e.g. `5%` or `0.05`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text)
    value = float(found[1]) / (100 if found[2] else 1) if found else -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"{text!r} is no share; write e.g. 5% or 0.05")
    return value


def positive(text: str) -> int:
    """Return a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def rate(text: str) -> float:
    """Return operations a second."""
    found = re.fullmatch(r"\d+(\.\d+)?", text)
    if found is None or float(text) <= 0:
        raise ValueError(f"{text!r} is no rate; write operations a second, e.g. 200")
    return float(text)


def names(text: str) -> Sequence[str]:
    """Return the words between commas."""
    return tuple(one.strip() for one in text.split(",") if one.strip())


def fan_out(text: str) -> Sequence[tuple[int, float]]:
    """Return sizes and their weights, of e.g. `1:70,2:30` or `3`."""
    found = []
    for part in text.split(","):
        size, _, weight = part.partition(":")
        if not size.isdecimal() or int(size) < 1 or (weight and not re.fullmatch(r"\d+(\.\d+)?", weight)):
            raise ValueError(f"{part!r} is no size with a weight; write e.g. 1:70,2:30")
        found.append((int(size), float(weight or 1)))
    if not any(weight for _, weight in found):
        raise ValueError(f"{text!r} gives no size a weight above 0")
    return tuple(found)


def size(text: str) -> int:
    """Return bytes, of e.g. `512B`, `4kB` or `1MiB`."""
    found = re.fullmatch(r"(\d+)\s*(B|kB|KiB|MB|MiB|)", text)
    value = int(found[1]) * SIZES[found[2]] if found else -1
    if not 0 <= value <= MOST_SIZE:
        raise ValueError(f"{text!r} is no size; write e.g. 512B, 4kB or 1MiB, at most 4MiB")
    return value
