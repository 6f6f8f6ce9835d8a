"""`sidecar projection rebuild`: rebuilds the rows of lists from the record."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from sidecar.cli.parameters.plain_values import PlainTyper
from sidecar.cli.record.backup import Config, run_or_exit
from sidecar.settings import Settings

Progress = Callable[[int, int], None]
"""Receives the number of processed facts and of remaining facts."""
Rebuild = Callable[[Settings, Progress], int]
"""Rebuilds the lists of the configured record; returns the number of processed facts. Raises `SettingsProblem`."""


def add_projection(app: typer.Typer, settings_of: Callable[[Path | None], Settings], rebuild: Rebuild) -> None:
    """Add the command."""
    group = PlainTyper(help="The lists of turns and episodes, derived from the record.", no_args_is_help=True)
    app.add_typer(group, name="projection")

    @group.callback()
    def lists() -> None:
        """Rebuild the lists of turns and episodes."""

    @group.command(name="rebuild")
    def command(
        config: Config = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    ) -> None:
        """Rebuild the lists of turns and episodes from the record. The facts of the record do not change.

        A sidecar rebuilds damaged lists by itself, while it serves; until then lists carry the time up to which they
        are complete. Use this command if a list seems to be wrong. With SQLite, no sidecar may have the record open.
        With PostgreSQL, running sidecars help to rebuild.

        Exit codes: 0 rebuilt, 78 the record cannot be opened, or a sidecar has it open.
        """

        def progress(taken: int, left: int) -> None:
            if as_json:
                typer.echo(json.dumps({"facts": taken, "left": left, "done": False}))
            else:
                typer.echo(f"{taken} facts processed, {left} left", err=True)

        facts = run_or_exit(lambda: rebuild(settings_of(config), progress))
        typer.echo(json.dumps({"facts": facts, "left": 0, "done": True}) if as_json else f"rebuilt from {facts} facts")
