"""`sidecar migrate`: bring the schema of the record up to date, or say what that would do."""

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from sidecar.cli.record.backup import Config, SettingsOf, carried_out
from sidecar.settings import Settings

Migrate = Callable[[Settings, bool], Sequence[str]]
"""From settings and whether to look only, the names of the steps; raises `SettingsProblem`."""


def add_migrate(app: typer.Typer, settings_of: SettingsOf, migrate: Migrate) -> None:
    """Add the command."""

    @app.command(name="migrate")
    def command(
        config: Config = None,
        preview: Annotated[bool, typer.Option("--preview", help="Only list the steps; change nothing.")] = False,
    ) -> None:
        """Apply the schema steps that the record lacks; a start does the same.

        Exit codes: 0 done, 78 the record cannot be opened, or a sidecar has it open.
        """
        steps = carried_out(lambda: migrate(settings_of(config), preview))
        for step in steps:
            typer.echo(f"{'pending' if preview else 'applied'}: {step}")
        if not steps:
            typer.echo("the record's schema is current")
