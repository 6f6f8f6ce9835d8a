"""Payload versions are semver; only the major part decides. Source: PC2-D-25, TN-29."""

import re
from typing import Final

NUMBER: Final = "(0|[1-9][0-9]{0,8})"
"""At most nine digits, because a service chooses them, and converting a long number costs time."""
SEMVER: Final = re.compile(rf"{NUMBER}\.{NUMBER}\.{NUMBER}([-+][0-9A-Za-z.+-]{{1,64}})?\Z")


def major_of(version: str) -> int | None:
    """Return the major part of a semver, or None if `version` is not one."""
    match = SEMVER.match(version)
    return int(match.group(1)) if match else None


def is_compatible(expected: str, actual: str) -> bool:
    """Return whether both are semver with the same major part."""
    major = major_of(expected)
    return major is not None and major == major_of(actual)
