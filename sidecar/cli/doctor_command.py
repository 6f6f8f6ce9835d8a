"""Declares `sidecar doctor`, and prints its findings: what would make a start fail or serve no user, and remedies."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec.structs import asdict

if TYPE_CHECKING:
    from sidecar.operations.process.findings import Finding
    from sidecar.settings import Settings

Examine = Callable[["Settings", float], Iterator["Finding"]]
"""Runs the checks with a time limit for each connection, in seconds; yields each finding as soon as it is known."""
SIGNS: Final = {"ok": "ok", "warning": "warning", "error": "ERROR"}
"""Marks by level; the mark of an error stands out in long output."""


def add_doctor(app: typer.Typer, read: Callable[[Path | None], "Settings"], examine: Callable[[], Examine]) -> None:
    """Add the command.

    Args:
        app: the command line.
        read: reads the settings, or ends the command.
        examine: returns the checks; called only when the command runs.
    """

    @app.command()
    def doctor(
        config: Annotated[
            Path | None, typer.Option("--config", "-c", help="The settings file, TOML. Variables override it.")
        ] = None,
        as_json_text: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
        timeout: Annotated[
            int,
            typer.Option(min=1, max=60, help="Time limit per host, service or database, in seconds."),
        ] = 2,
    ) -> None:
        """Check settings, definitions, plugins, files, the record, and all connections of the sidecar; change nothing.

        Run it before a start, or beside the running sidecar.

        Exit codes: 0 no errors (warnings are possible), 1 errors, 78 wrong settings.
        """
        settings = read(config)
        # A generator: each finding is printed at once, because later checks may use up their time limits.
        findings = examine()(settings, timeout)
        raise typer.Exit(_print_json(findings) if as_json_text else _print_text(findings))


def _print_text(findings: Iterable["Finding"]) -> int:
    """Print each finding immediately. Returns the exit code."""
    counts = dict.fromkeys(SIGNS, 0)
    for each in findings:
        counts[each.level] += 1
        about = f"{each.about}: " if each.about else ""
        typer.echo(f"{SIGNS[each.level]:<8} {each.area:<13} {about}{each.text}")
        if each.remedy:
            typer.echo(f"{'':<8} {'':<13} what to do: {each.remedy}")
    totals = (f"{counts[level]} {level}{'' if counts[level] == 1 else 's'}" for level in ("error", "warning"))
    typer.echo(f"{', '.join(totals)}, {counts['ok']} in order")
    return int(counts["error"] > 0)


def _print_json(findings: Iterable["Finding"]) -> int:
    """Print one array of objects with the fields of `Finding`. Returns the exit code."""
    # A JSON array must be complete, so nothing is printed before the last check.
    every = list(findings)
    typer.echo(json.dumps([asdict(each) for each in every], indent=2))
    return int(any(each.level == "error" for each in every))
