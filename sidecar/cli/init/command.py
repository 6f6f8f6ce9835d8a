"""Declares `sidecar init`, which writes a new repository with one sub-agent (`repository.py`)."""

import shlex
from pathlib import Path
from typing import Annotated, Final

import typer

EX_USAGE: Final = 64


def add_init(app: typer.Typer) -> None:
    """Add the command."""

    @app.command(name="init")
    def init(
        name: Annotated[str, typer.Argument(help="Id of the sub-agent and name of the new folder, e.g. travel.")],
        folder: Annotated[Path, typer.Option("--dir", help="Parent folder of the repository.")] = Path(),
    ) -> None:
        """Write a repository with one sub-agent. Its README leads to a first dispatch.

        Written: configuration, data service, runner host, consumer script, golden cases, gates, settings, test, CI.

        The content is an example about trips. The sub-agent begins in `dev`; it serves users after a promotion.

        Example: `sidecar init travel`, then follow `travel/README.md`.

        Exit codes: 0 written, 64 the name is not valid, or a file of that name exists.
        """
        from sidecar.cli.init.repository import write_repository  # noqa: PLC0415  not for `--help`
        from sidecar.cli.scaffolding.project_files import ScaffoldError  # noqa: PLC0415  not for `--help`

        try:
            written = write_repository(name, folder)
        except ScaffoldError as problem:
            typer.echo(str(problem), err=True)
            raise typer.Exit(EX_USAGE) from None
        typer.echo(f"written: {written}, with the sub-agent {name}. Next:\n")
        typer.echo(f"  cd {shlex.quote(str(written))}")
        typer.echo("  pip install -r requirements.txt")
        typer.echo("  sidecar validate config --strict\n")
        typer.echo("Until 0.1.0 is published, add --find-links with the folder of your wheels to `pip install`.")
        typer.echo("README.md has the steps from there to the first dispatch.")
