"""Condenses the output of a process: a traceback to its last line and place, the sidecar's log to important events."""

import re
from pathlib import Path
from typing import Final

PLACE: Final = re.compile(r'\s*(?:\|\s*)?File "(?P<file>[^"]+)", line (?P<line>\d+)')
LOG_LINE: Final = re.compile(r"\d\d:\d\d:\d\d\.\d{3} (?P<level>[A-Z]+) +(?P<event>[\w.]+): (?P<text>.*)")
LONGEST: Final = 400
"""The most characters of a line that are shown."""
QUIET: Final = ".key_made"
"""End of the names of warnings that are not shown: they are meant for production, where a key should exist already."""
NEWS: Final = ".changed"
"""End of the names of events of level INFO that are shown."""


class Folded:
    """Folds each traceback in the lines of one child into one line: its error, and its last place in the folder.

    Args:
        folder: the folder whose last frame in a traceback is shown.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._place = ""
        self._inside = False

    def shown(self, line: str) -> str:
        """Return what to show for a line; empty for nothing."""
        # A syntax error has a place without the line `Traceback`.
        if line.startswith("Traceback (most recent call last)") or (not self._inside and PLACE.match(line)):
            self._inside, self._place = True, ""
        if not self._inside:
            return line[:LONGEST]
        if place := PLACE.match(line):
            file = Path(place["file"])
            # A later frame replaces an earlier one: the last place in the author's own code is mostly that of the
            # mistake.
            if file.is_relative_to(self._folder) and ".venv" not in file.parts:
                self._place = f" ({file.relative_to(self._folder)}, line {place['line']})"
        # Inside a traceback: source lines are indented; a chain of exceptions has empty lines and further headings.
        if not line or line[0].isspace() or line.startswith("Traceback "):
            return ""
        self._inside = False
        return line[:LONGEST] + self._place


def news(line: str) -> str:
    """Return what to show of a line of the sidecar; empty for nothing."""
    match = LOG_LINE.match(line)
    if match is None:
        return line
    is_informative = match["level"] in {"INFO", "DEBUG"}
    if match["event"].endswith(QUIET) or (is_informative and not match["event"].endswith(NEWS)):
        return ""
    return match["text"] if is_informative else f"{match['level'].lower()}: {match['text']}"
