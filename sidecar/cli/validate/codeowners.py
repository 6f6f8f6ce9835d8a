"""`sidecar codeowners DIR`: generates CODEOWNERS from the owners of the prompt blocks, or compares a file with it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from sidecar.core.decoding import DecodeError, from_utf8
from sidecar.core.definitions.resolve import LoadedCatalogue
from sidecar.core.definitions.review.ownership import OWNER_SIGN, reviewers_rules

CURRENT: Final = 0
"""Exit code: the file was printed, or the compared file is up to date."""
DIFFERENT: Final = 1
"""Exit code: the compared file differs or cannot be read, or none could be generated."""
# The first line of the file, for people who would edit it by hand.
HEADING: Final = "# Made by `sidecar codeowners` from the `owner` of each prompt block; do not edit."


@dataclass(frozen=True, slots=True)
class CodeownersOptions:
    """Options of the command.

    Attributes:
        team: template of a team's name on the code host; contains `{owner}`.
        under: the configuration's folder inside the repository.
        compared_with: an existing CODEOWNERS file that must have the generated content; None: print the content.
    """

    team: str = "@{owner}"
    under: str = ""
    compared_with: Path | None = None


def codeowners(root: Path, options: CodeownersOptions, load: Callable[[Path], LoadedCatalogue], out: TextIO) -> int:
    """Print the CODEOWNERS file of the configuration below `root`, or report whether a file is up to date.

    Returns:
        The exit code: 1 if the configuration has errors, `team` lacks `{owner}`, or the compared file differs.
    """
    loaded = load(root)
    if loaded.catalogue is None:
        out.write(f"the configuration has errors; see `sidecar validate {root}`\n")
        return DIFFERENT
    if OWNER_SIGN not in options.team:
        out.write(f"--team must hold {OWNER_SIGN}, or every owner would be the same\n")
        return DIFFERENT
    text = "\n".join((HEADING, *reviewers_rules(loaded.blocks, options.team, options.under))) + "\n"
    if options.compared_with is None:
        out.write(text)
        return CURRENT
    return _compare(options.compared_with, text, out)


def _compare(file: Path, text: str, out: TextIO) -> int:
    try:
        content = from_utf8(file.read_bytes())
    except (OSError, DecodeError):
        out.write(f"{file} cannot be read\n")
        return DIFFERENT
    if content == text:
        out.write(f"{file} is right\n")
        return CURRENT
    out.write(f"{file} is not what the blocks' owners make; write it anew with `sidecar codeowners`\n")
    return DIFFERENT
