"""`sidecar restored`: an operator states that an older backup has replaced the record, so that facts are lost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sidecar.cli.record.backup import SettingsOf, carried_out
from sidecar.settings import Settings

Config = Annotated[Path | None, typer.Option("--config", "-c", help="The settings file, TOML. Variables override it.")]


@dataclass(frozen=True, slots=True)
class Restored:
    """The result.

    Attributes:
        lost: the facts that were stated as lost.
        others: findings that an older backup does not explain. In this case nothing was stated.
        nothing: whether nothing is missing.
    """

    lost: Sequence[str]
    others: Sequence[str]
    nothing: bool = False


StateRestored = Callable[[Settings, str, Callable[[Sequence[str]], bool]], Restored]
"""Takes the settings, the reason, and a function that confirms the loss; raises `SettingsProblem`."""


def add_restored(app: typer.Typer, settings_of: SettingsOf, state_restored: StateRestored) -> None:
    """Add the command."""

    @app.command(name="restored")
    def command(
        reason: Annotated[str, typer.Option(help="Why a backup was restored, and from when it is; for auditors.")],
        config: Config = None,
        yes: Annotated[bool, typer.Option("--yes", help="Confirm in advance.")] = False,
    ) -> None:
        """State that a restored backup has replaced the record, so that the facts that it lacks count as lost.

        The command verifies the record first, and refuses if an older backup does not explain every finding. It
        writes signed lines into the file of checkpoints; `verify-log` then reports the gap as a note.

        Exit codes: 0 stated, or nothing is missing; 1 refused or not confirmed; 78 record, key or checkpoints cannot
        be used.
        """
        if not reason.strip():
            raise typer.BadParameter("is empty; say why, for auditors", param_hint="--reason")

        def confirmed(lost: Sequence[str]) -> bool:
            for each in lost:
                typer.echo(f"lost: {each}")
            return yes or typer.confirm("State this as lost by a restored backup, permanently?", err=True)

        done = carried_out(lambda: state_restored(settings_of(config), reason.strip(), confirmed))
        for finding in done.others:
            typer.echo(finding)
        if done.others:
            typer.echo("an older backup does not explain this; see `When something is found` in record-integrity.md")
        elif done.nothing:
            typer.echo("nothing that was signed is missing")
        elif done.lost:
            typer.echo("stated in the file of checkpoints; `sidecar verify-log` reports it as a note")
        if not done.lost and not done.nothing:
            raise typer.Exit(1)
