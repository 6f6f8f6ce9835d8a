"""The command `sidecar dev`: its options, and the checks before it starts processes."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from sidecar.settings import Settings

EX_USAGE: Final = 64
SETTINGS: Final = "sidecar.toml"


def add_dev(
    app: typer.Typer, settings_of: "Callable[[Path | None], Settings]", make_key: Callable[[Path], object]
) -> None:
    """Add the command.

    Args:
        app: the command line.
        settings_of: reads the settings, or ends the command.
        make_key: creates an operator's key unless it exists.
    """

    @app.command(name="dev")
    def dev(
        folder: Annotated[Path, typer.Option("--dir", help="The folder that `sidecar init` wrote.")] = Path(),
        consumer: Annotated[
            str, typer.Option("--consumer", help="Script to run when the sidecar answers, e.g. ask.py.")
        ] = "",
    ) -> None:
        """Run a folder that `sidecar init` wrote: sidecar, runner hosts, data service; show the timeline of each turn.

        Changed scripts and settings restart the processes that use them. The sidecar reloads cards and prompts itself.

        The complete output of each process is in `.run/dev`. Ctrl-C ends all processes; a second Ctrl-C kills them.

        Example: `sidecar dev --consumer ask.py`.

        Exit codes: 0 stopped by a signal, 64 not a folder of `sidecar init`, 78 wrong settings.
        """
        # Checked before anything is written into the folder.
        missing = [name for name in (SETTINGS, consumer) if name and not (folder / name).is_file()]
        if missing:
            typer.echo(
                f"{folder / missing[0]} does not exist; give a folder that `sidecar init` wrote, with --dir", err=True
            )
            raise typer.Exit(EX_USAGE)
        # All paths of the settings and of the scripts are relative to this folder.
        os.chdir(folder)
        from sidecar.cli.dev.running import DevSession  # noqa: PLC0415  not for `--help`
        from sidecar.cli.output.drawing import Screen  # noqa: PLC0415  not for `--help`
        from sidecar.cli.record.client import SidecarAddress  # noqa: PLC0415  not for `--help`

        Path(".run").mkdir(exist_ok=True)
        make_key(Path(".run/operator"))
        # After the key was made: the settings name its public key.
        settings = settings_of(Path(SETTINGS))
        where = SidecarAddress(f"unix:{settings.server.dispatch_socket}", settings.server.boot_secret_file)
        session = DevSession(Screen(sys.stdout), settings.definitions.path, Path(consumer) if consumer else None)
        session.run(where)
