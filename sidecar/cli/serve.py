"""Runs `sidecar serve` without the rest of the command line, which would take a tenth of the time of a start.

`sidecar/entry.py` calls it before it imports the command line.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from sidecar.settings import Settings, SettingsProblem

EX_CONFIG: Final = 78
"""The same as in `sidecar.policy.problems`."""


def serve_alone(
    arguments: Sequence[str],
    read_settings: "Callable[[Path | None], Settings]",
    serve: "Callable[[Settings], int]",
    err: TextIO,
) -> int | None:
    """Run `serve [--config FILE]`.

    Args:
        arguments: of the command line, without the program's name.
        read_settings: reads the settings from a file and the environment; raises `SettingsProblem`.
        serve: runs the sidecar; returns its exit code.
        err: receives the problems of the settings.

    Returns:
        The exit code; None: this is another command, or an error that only the complete command line can report.
    """
    # Exactly these forms; everything else, e.g. `--help` or a mistake, is for Typer, which knows all options and
    # messages.
    match arguments:
        case ["serve"]:
            file = None
        # A name that begins with `-` is an option: its value is missing, which Typer reports.
        case ["serve", "--config" | "-c", name] if not name.startswith("-"):
            file = Path(name)
        case _:
            return None
    from sidecar.settings.problems import SettingsProblem  # noqa: PLC0415  other commands have no use for it

    try:
        settings = read_settings(file)
    except SettingsProblem as problem:
        err.write(f"{refusal(problem)}\n")
        return EX_CONFIG
    return serve(settings)


def refusal(problem: "SettingsProblem") -> str:
    """Return the message about invalid settings: one problem a line."""
    return "the settings cannot be used:\n" + "\n".join(f"  {line}" for line in problem.problems)
