"""`sidecar restored`: an operator declares that the record was restored from an older backup, which lacks facts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sidecar.cli.record.backup import SettingsOf, run_or_exit
from sidecar.settings import Settings

Config = Annotated[Path | None, typer.Option("--config", "-c", help="The settings file, TOML. Variables override it.")]


@dataclass(frozen=True, slots=True)
class LossDeclaration:
    """The result of declaring facts as lost.

    Attributes:
        lost: the facts that were declared as lost; empty if nothing was declared.
        unexplained: findings that an older backup does not explain. In this case nothing was declared.
        nothing_missing: whether the record lacks no fact, so that there was nothing to declare.
    """

    lost: Sequence[str]
    unexplained: Sequence[str]
    nothing_missing: bool = False


DeclareLoss = Callable[[Settings, str, Callable[[Sequence[str]], bool]], LossDeclaration]
"""Takes the settings, the reason, and a function that asks the operator for confirmation. Raises `SettingsProblem`."""


def add_restored(app: typer.Typer, settings_of: SettingsOf, declare_loss: DeclareLoss) -> None:
    """Add the command."""

    @app.command(name="restored")
    def command(
        reason: Annotated[str, typer.Option(help="Why a backup was restored, and from when it is; for auditors.")],
        config: Config = None,
        yes: Annotated[bool, typer.Option("--yes", help="Confirm in advance.")] = False,
    ) -> None:
        """Declare that the record was restored from an older backup. Facts that the backup lacks then count as lost.

        The command verifies the record first, and refuses if an older backup does not explain every finding. It
        writes signed lines into the file of checkpoints; `verify-log` then reports the gap as a note.

        Exit codes: 0 declared, or nothing is missing; 1 refused or not confirmed; 78 record, key or checkpoints cannot
        be used.
        """
        if not reason.strip():
            raise typer.BadParameter("is empty; say why, for auditors", param_hint="--reason")

        # Called by the operation after its verification: only then is it known what would be declared as lost.
        def confirm(lost: Sequence[str]) -> bool:
            for each in lost:
                typer.echo(f"lost: {each}")
            return yes or typer.confirm("Declare this as lost by a restored backup, permanently?", err=True)

        declaration = run_or_exit(lambda: declare_loss(settings_of(config), reason.strip(), confirm))
        for finding in declaration.unexplained:
            typer.echo(finding)
        if declaration.unexplained:
            typer.echo("an older backup does not explain this; see `When something is found` in record-integrity.md")
        elif declaration.nothing_missing:
            typer.echo("nothing that was signed is missing")
        elif declaration.lost:
            typer.echo("declared in the file of checkpoints; `sidecar verify-log` reports it as a note")
        # Nothing was declared although facts are missing: the loss was refused, or not confirmed.
        if not declaration.lost and not declaration.nothing_missing:
            raise typer.Exit(1)
