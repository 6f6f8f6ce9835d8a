"""Declares `sidecar verify-log`. What runs it, `sidecar.cli.record.verify_log`, is imported only when it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from sidecar.cli.record.source import RecordSource
from sidecar.settings import SettingsProblem

CANNOT_READ: Final = 2
"""Exit code: the settings, the record, a checkpoint file or a key cannot be read."""


@dataclass(frozen=True, slots=True)
class VerifyLog:
    """The operations that the command calls.

    Attributes:
        configured: returns the record that a settings file configures; raises `SettingsProblem`.
        run: verifies a record, prints the result (as JSON if the second argument is true), and returns the exit code.
    """

    configured: Callable[[Path], RecordSource]
    run: Callable[[RecordSource, bool], int]


def add_verify_log(app: typer.Typer, verify_log: VerifyLog) -> None:
    """Add the command to the command line `app`."""

    @app.command(name="verify-log")
    def verify(
        config: Annotated[
            Path | None, typer.Option("--config", "-c", help="Settings file with the defaults of the other options.")
        ] = None,
        sqlite: Annotated[Path | None, typer.Option(help="The record's file, or a backup of it.")] = None,
        postgresql_dsn_file: Annotated[
            Path | None, typer.Option(help="File with the DSN of the record's PostgreSQL database.")
        ] = None,
        checkpoints: Annotated[
            list[Path] | None, typer.Option(help="A file of signed checkpoints; repeatable.")
        ] = None,
        public_key: Annotated[list[Path] | None, typer.Option(help="Public key of checkpoints; repeatable.")] = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    ) -> None:
        """Verify that the record of delegated work was not altered; list each finding.

        The command only reads. It needs no running sidecar and does not disturb one.

        With --config, missing options are taken from the settings:

            sidecar verify-log --config sidecar.toml

        An auditor uses a copy, and the public key that the sidecar's first start wrote beside the private key:

            sidecar verify-log --sqlite backup.db --checkpoints checkpoints.jsonl --public-key checkpoint.key.pub

        Without checkpoints the command finds altered, moved and missing facts.

        It then finds neither a log that was rewritten as a whole, nor a log whose end was cut off.

        Notes list what could not be checked. See docs/record-integrity.md.

        Exit codes: 0 intact, 1 findings, 2 something cannot be read.
        """
        source = RecordSource(sqlite, postgresql_dsn_file, checkpoints or (), public_key or ())
        if config is not None:
            try:
                # Options take precedence, e.g. to compare a backup with the checkpoints of the running sidecar.
                source = source.with_defaults_of(verify_log.configured(config))
            except SettingsProblem as problem:
                lines = "\n".join(f"  {line}" for line in problem.problems)
                typer.echo(f"the settings cannot be used:\n{lines}", err=True)
                # Not 78 as for other commands: `verify-log` has one code for everything that cannot be read.
                raise typer.Exit(CANNOT_READ) from None
        raise typer.Exit(verify_log.run(source, as_json))
