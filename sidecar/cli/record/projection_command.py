"""`sidecar projection rebuild`: rebuilds the rows of lists from the record."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from sidecar.cli.parameters.plain_values import PlainTyper
from sidecar.cli.record.backup import Config, carried_out
from sidecar.settings import Settings

Progress = Callable[[int, int], None]
"""Told how many facts were taken, and how many are left."""
Rebuild = Callable[[Settings, Progress], int]
"""Rebuilds the lists of the record that settings name; returns how many facts were taken. Raises `SettingsProblem`."""


def add_projection(app: typer.Typer, settings_of: Callable[[Path | None], Settings], rebuild: Rebuild) -> None:
    """Add the command."""
    group = PlainTyper(help="The projection: rows for lists, derived from the record.", no_args_is_help=True)
    app.add_typer(group, name="projection")

    @group.callback()
    def lists() -> None:
        """Keep the name of the command when it is the only one."""

    @group.command(name="rebuild")
    def command(
        config: Config = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    ) -> None:
        """Derive all rows of lists anew from the record. Its facts are not changed.

        A sidecar rebuilds rows that it cannot use by itself, while it serves; lists say as of when they are until then.
        This is for doubts about them. With SQLite, no sidecar may have the record open; with PostgreSQL, sidecars that
        serve take part.

        Exit codes: 0 rebuilt, 78 the record cannot be opened, or a sidecar has it open.
        """

        def progress(taken: int, left: int) -> None:
            if as_json:
                typer.echo(json.dumps({"facts": taken, "left": left, "done": False}))
            else:
                typer.echo(f"{taken} facts taken, {left} left", err=True)

        facts = carried_out(lambda: rebuild(settings_of(config), progress))
        typer.echo(json.dumps({"facts": facts, "left": 0, "done": True}) if as_json else f"rebuilt from {facts} facts")
