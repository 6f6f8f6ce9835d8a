"""Adds the commands that other installed packages offer in the entry-point group `sidecar.commands`, e.g. `eval`."""

from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import typer
from typer.main import get_command_name

from sidecar.policy.problems import EX_CONFIG

GROUP: Final = "sidecar.commands"
ANYTHING: Final = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""All arguments are passed to the command, `--help` included."""
Main = Callable[[Sequence[str]], int]
"""The object of an entry point: takes the arguments after the command's name, returns the exit code."""


def add_installed_commands(app: typer.Typer, installed: Iterable[EntryPoint] | None = None) -> None:
    """Add each installed command by its name; its code is imported only when it is called.

    If several distributions offer a command of the same name, the first one in the order of their names is added.

    Args:
        app: the command line with all of the sidecar's own commands, which cannot be replaced.
        installed: entry points; None: those of this environment.
    """
    points = entry_points(group=GROUP) if installed is None else installed
    # Typer derives a missing name from the function.
    own_names = {
        one.name or (one.callback and get_command_name(one.callback.__name__)) for one in app.registered_commands
    }
    taken = own_names | {one.name for one in app.registered_groups}
    # Sorted, because the order of installed distributions is not defined.
    for point in sorted(points, key=lambda one: (one.name, one.value)):
        if point.name not in taken:
            taken.add(point.name)
            _add(app, point)


def _add(app: typer.Typer, point: EntryPoint) -> None:
    # In a function and not in the loop of the caller: the command below must keep its own `point`.
    summary = point.dist.metadata["Summary"] if point.dist else ""

    @app.command(name=point.name, help=summary, context_settings=dict(ANYTHING))
    def installed(context: typer.Context) -> None:
        try:
            main: Main = point.load()
        except Exception as error:  # noqa: BLE001  the code of another distribution; its failure is reported, not raised
            typer.echo(
                f"`sidecar {point.name}` cannot be used: {point.value}: {type(error).__name__}: {error}", err=True
            )
            raise typer.Exit(EX_CONFIG) from None
        raise typer.Exit(main(context.args))
