"""Declares `sidecar backup` (copies the record while a sidecar serves) and `sidecar migrate` (updates its schema)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from sidecar.policy.problems import EX_CONFIG
from sidecar.settings import Settings, SettingsProblem

Config = Annotated[Path | None, typer.Option("--config", "-c", help="The settings file, TOML. Variables override it.")]
SettingsOf = Callable[[Path | None], Settings]
BackUp = Callable[[Settings, Path], None]
"""Copies the record of the settings to a new file; raises `SettingsProblem`."""
Migrate = Callable[[Settings, bool], Sequence[str]]
"""Applies the missing schema steps, or only lists them; returns their names. Raises `SettingsProblem`."""
Result = TypeVar("Result")


def add_backup(app: typer.Typer, settings_of: SettingsOf, back_up: BackUp) -> None:
    """Add the command."""

    @app.command(name="backup")
    def command(
        file: Annotated[Path, typer.Argument(help="The new file; an existing file is never replaced.")],
        config: Config = None,
    ) -> None:
        """Copy the record in its present state to a file, while the sidecar serves. SQLite only.

        Exit codes: 0 copied, 78 the record cannot be read, or the file cannot be written.
        """
        run_or_exit(lambda: back_up(settings_of(config), file))
        typer.echo(f"copied the record to {file}")


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
        steps = run_or_exit(lambda: migrate(settings_of(config), preview))
        for step in steps:
            typer.echo(f"{'pending' if preview else 'applied'}: {step}")
        if not steps:
            typer.echo("the record's schema is current")


def run_or_exit(work: Callable[[], Result]) -> Result:
    """Return the result of `work`; if it raises `SettingsProblem`, print the problems and end the command."""
    try:
        return work()
    except SettingsProblem as problem:
        typer.echo("\n".join(problem.problems), err=True)
        raise typer.Exit(EX_CONFIG) from None
