"""The options of `sidecar verify-log`; what it does stands in `verify_log`, which is loaded when the command runs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from sidecar.cli.record.source import RecordSource
from sidecar.settings import SettingsProblem

CANNOT_READ: Final = 2


@dataclass(frozen=True, slots=True)
class VerifyLog:
    """The operations that the command calls.

    Attributes:
        configured: where the record of a settings file is; raises `SettingsProblem`.
        run: verifies a record; prints, as JSON if asked, and returns the exit code.
    """

    configured: Callable[[Path], RecordSource]
    run: Callable[[RecordSource, bool], int]


def add_verify_log(app: typer.Typer, verify_log: VerifyLog) -> None:
    """Add the command."""

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
        """Say whether the record of delegated work is as it was written, and if not, what is wrong with it.

        Reads only, needs no running sidecar and does not disturb one.

        With --config, what is not said otherwise is taken from the settings:

            sidecar verify-log --config sidecar.toml

        An auditor takes a copy, and the public key, which the first start writes beside the private one:

            sidecar verify-log --sqlite backup.db --checkpoints checkpoints.jsonl --public-key checkpoint.key.pub

        Without checkpoints it sees what was altered, moved or left out.

        It sees neither a log that was written anew as a whole then, nor an end that was cut off.

        What it could not know, it says in notes; docs/record-integrity.md has the whole.

        Exit codes: 0 whole, 1 findings, 2 something cannot be read.
        """
        said = RecordSource(sqlite, postgresql_dsn_file, checkpoints or (), public_key or ())
        if config is not None:
            try:
                said = said.with_defaults_of(verify_log.configured(config))
            except SettingsProblem as problem:
                lines = "\n".join(f"  {line}" for line in problem.problems)
                typer.echo(f"the settings cannot be used:\n{lines}", err=True)
                raise typer.Exit(CANNOT_READ) from None
        raise typer.Exit(verify_log.run(said, as_json))
