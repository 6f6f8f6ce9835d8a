"""The path of a child's report below the operator's directory. No part of a path can lead out of it.

Turn ids come from clients and patterns from contracts; neither can name a file outside. The adapter guards against
links that other programs put into the directory.
"""

from hashlib import sha256
from typing import Final
from urllib.parse import quote

LONGEST_PART: Final = 200
"""UTF-8 bytes; file systems allow 255, and a temporary name is a little longer."""
MOST_PARTS: Final = 8
"""Limits the folders that one contract can create."""
INDEX: Final = "<idx>"
RESERVED: Final = frozenset(
    {"CON", "PRN", "AUX", "NUL", *(f"{port}{number}" for port in ("COM", "LPT") for number in range(10))}
)
"""Names that are devices on some systems, with any ending and in any case."""
FORBIDDEN: Final = frozenset('<>:"|?*\\')


def report_path(turn_id: str, pattern: str, step_idx: int) -> tuple[str, ...]:
    """Return the parts of a report's path: a folder for the turn, then what the pattern says.

    Args:
        turn_id: any text; two ids never share a folder, even if they differ only by case.
        pattern: `Outputs.report_path_pattern`; `<idx>` is replaced by the step.
        step_idx: index of the child in the turn.

    Raises:
        ValueError: the pattern is no plain relative path.

    Source: SX-9, SX-11.
    """
    parts = pattern.replace(INDEX, str(step_idx)).split("/")
    if len(parts) > MOST_PARTS:
        raise ValueError(f"report_path_pattern has more than {MOST_PARTS} parts")
    for part in parts:
        problem = _problem_of(part)
        if problem:
            raise ValueError(f"report_path_pattern: a part {problem}")
    # Only the pattern is checked: the folder is made so that it is harmless for any turn id.
    return (turn_folder(turn_id), *parts)


def turn_folder(turn_id: str) -> str:
    """Return the name of a turn's folder; the id itself where that is a harmless name, else an encoding of it."""
    # `quote` leaves dots and tildes unchanged: `..` would lead to the parent folder, and a tilde begins the names
    # below.
    encoded = quote(turn_id, safe="", errors="surrogatepass").replace(".", "%2E").replace("~", "%7E")
    if not encoded or len(encoded) > LONGEST_PART or _is_reserved(encoded):
        # A tilde begins no encoded id, so this can be the folder of no other turn.
        return f"~{sha256(turn_id.encode(errors='surrogatepass')).hexdigest()}"
    return encoded


def _problem_of(part: str) -> str:
    if part in {"", ".", ".."}:
        return "is empty, '.' or '..'"
    if not part.isprintable() or FORBIDDEN.intersection(part):
        return "holds a character that is not allowed in names"
    # Windows removes a trailing space or dot, so two such names could be one file.
    if part[-1] in ". " or part[0] == " ":
        return "begins or ends with a space, or ends with a dot"
    if len(part.encode()) > LONGEST_PART:
        return f"is over {LONGEST_PART} bytes"
    return "is reserved" if _is_reserved(part) else ""


def _is_reserved(name: str) -> bool:
    return name.partition(".")[0].rstrip(" ").upper() in RESERVED
