"""Declares `sidecar replay`. What runs it, `sidecar.cli.record.replay`, is imported only when the command runs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from sidecar.settings import Settings

CANNOT: Final = 2
"""Exit code: the options contradict each other, or the turn cannot be replayed."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options of a replay.

    Attributes:
        source: a file that an earlier command wrote with `--export`; None: the input comes from the running sidecar.
        export: the file to write the input of the replay to, instead of replaying; None: replay.
    """

    turn_id: str
    source: Path | None = None
    export: Path | None = None
    as_json: bool = False


Replay = Callable[[Settings | None, Path | None, ReplayOptions], int]
"""Takes the settings (None: not given), the folder of the definitions (None: that of the settings), and the options;
returns the exit code."""


def add_replay(app: typer.Typer, settings_of: Callable[[Path | None], Settings], run: Replay) -> None:
    """Add the command.

    Args:
        app: the command line.
        settings_of: reads the settings from a file and the environment; if they are invalid, ends the command.
        run: runs the replay.
    """

    @app.command(name="replay")
    def replay_turn(
        turn_id: Annotated[str, typer.Argument(help="Id of the turn.")],
        source: Annotated[Path | None, typer.Option("--from", help="Replay a file that --export wrote.")] = None,
        export: Annotated[
            Path | None, typer.Option(help="Write the input of the replay to this file; do not replay.")
        ] = None,
        definitions: Annotated[
            Path | None, typer.Option(help="Folder of the definitions; default: definitions.path of the settings.")
        ] = None,
        config: Annotated[Path | None, typer.Option("--config", "-c", help="The sidecar's settings file.")] = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    ) -> None:
        """Run a recorded turn through the installed code, and compare the results.

        The input is what the sub-agents sent, with its times. The recorded outcomes are only compared. A replay runs
        in virtual time, calls no sub-agent and no data service, and changes nothing:

            sidecar replay turn-17 --config sidecar.toml

        On another machine without the sidecar, e.g. in a pipeline:

            sidecar replay turn-17 --config sidecar.toml --export turn-17.json
            sidecar replay turn-17 --from turn-17.json --definitions config/

        Exit codes: 0 the same result, 1 it differs, 2 it cannot be replayed, 78 wrong settings.
        """
        if source is not None and export is not None:
            typer.echo("--from and --export exclude each other", err=True)
            raise typer.Exit(CANNOT)
        # Settings are required unless both inputs are given: then the command works where no sidecar is installed.
        offline = source is not None and definitions is not None and config is None
        settings = None if offline else settings_of(config)
        raise typer.Exit(run(settings, definitions, ReplayOptions(turn_id, source, export, as_json)))
