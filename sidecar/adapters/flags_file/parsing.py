"""Reads the text of a flag file: all of it or nothing.

A half-written file must never read as "the rest is off", since an observed on-to-off edge takes a sub-agent away for
good. JSON cut anywhere does not parse. TOML cut between two lines does, so a TOML file has to end with `END_LINE`.
"""

from collections.abc import Mapping
from typing import Any, Final

from sidecar.core.decoding import Undecodable, from_json_by_pairs, from_toml

END_LINE: Final = "# end of flags"
LONGEST_NAME: Final = 200


class FlagFileProblem(Exception):
    """The file cannot be read as flags; what was read before still holds until it is too old."""


def flags_in_json(text: str) -> Mapping[str, bool]:
    """Return the flags in `{"flags": {"name": true, ...}}`. Raises `FlagFileProblem`."""
    try:
        document = from_json_by_pairs(text, _without_duplicates)
    except Undecodable as error:
        raise FlagFileProblem(f"is not whole JSON: {error}") from error
    return _flags_in(document)


def flags_in_toml(text: str) -> Mapping[str, bool]:
    """Return the flags in a TOML file with a `[flags]` table. Raises `FlagFileProblem`."""
    if text.rstrip().rpartition("\n")[2] != END_LINE:
        raise FlagFileProblem(f"does not end with the line `{END_LINE}`, so it may be half-written")
    try:
        document = from_toml(text)
    except Undecodable as error:
        raise FlagFileProblem(f"is not whole TOML: {error}") from error
    return _flags_in(document)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FlagFileProblem(f"has the key {twice!r} twice")
    return found


def _flags_in(document: Any) -> Mapping[str, bool]:
    if not isinstance(document, dict) or not isinstance(document.get("flags"), dict):
        raise FlagFileProblem("has no table `flags`")
    unknown = sorted(set(document) - {"flags"})
    if unknown:
        raise FlagFileProblem(f"has the unknown key {unknown[0]!r}; only `flags` is known")
    flags: dict[str, bool] = document["flags"]
    for name, state in flags.items():
        if not isinstance(state, bool):
            raise FlagFileProblem(f"flag {name!r} is neither true nor false")
        if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
            raise FlagFileProblem(f"flag {name[:LONGEST_NAME]!r}: a name is 1 to {LONGEST_NAME} printable characters")
    return flags
