"""`sidecar subagent`: the commands that read. What they need beside this is imported when one of them runs."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, TypeVar

import typer

from sidecar.cli.record_commands import SettingsOf, given_by
from sidecar.cli.subagent_words import basis_points, moment_of

EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 refused by rules, gates, policies or a changed revision, or unknown; 2 it could not be "
    "asked (no sidecar, no token, wrong role, not confirmed, not understood); 3 in part: a replica was not reached or "
    "lags, a flag has to be switched first, or it is not on record yet; 78 wrong settings."
)
EX_USAGE: Final = 2
ValueT = TypeVar("ValueT")

Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="The sidecar's settings file; says where it listens.")
]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", help="Its operator listener instead, e.g. unix:/run/operators.sock; for kill, several."),
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", help="File with the role token; else SIDECAR_ROLE_TOKEN holds it.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Name = Annotated[str, typer.Argument(help="Id of the sub-agent's definition.")]
Slot = Annotated[str, typer.Argument(help="A slot, or the id of a definition in it.")]
Digest = Annotated[str, typer.Option("--digest", help="Which digest of it; else the active one, else the newest.")]

Open = Callable[[], Any]
"""Returns an `Operating`: which sidecars, and where to print. Reads the settings if it has to."""
Placed = Callable[[Callable[..., None]], Callable[..., None]]


def add_subagent(app: typer.Typer, settings_of: SettingsOf, token_of: Callable[[], str]) -> None:
    """Add the commands.

    Args:
        app: the command line.
        settings_of: reads the settings, or ends the command.
        token_of: the role token of the environment; empty: there is none.
    """
    from sidecar.cli.subagent_step_commands import add_steps  # noqa: PLC0415  it stands on what is defined here

    group = typer.Typer(
        no_args_is_help=True, help="How sub-agents reach users: see it, and take steps.", epilog=EXIT_CODES
    )
    app.add_typer(group, name="subagent")

    def place(
        config: Config = None, target: Targets = None, token_file: TokenFile = None, as_json: AsJson = False
    ) -> Open:
        return lambda: _operating(settings_of, token_of, (config, tuple(target or ()), token_file), as_json=as_json)

    placed = given_by(place, "at")
    for name, command in (
        ("list", _list),
        ("show", _show),
        ("explain", _explain),
        ("preview", _preview),
        ("history", _history),
    ):
        group.command(name=name, epilog=EXIT_CODES)(placed(command))
    add_steps(group, placed)


def understood(read: Callable[[str], ValueT], text: str) -> ValueT:
    """Return what somebody wrote, or end the command."""
    try:
        return read(text)
    except ValueError as problem:
        typer.echo(str(problem), err=True)
        raise typer.Exit(EX_USAGE) from None


def _list(at: Open) -> None:
    """Show every definition: state, ramp, flags and how fresh they are, gates, breaches, pinned turns, drift.

    With --json it is the export that `sidecar validate-refs --rollout-export` reads.
    """
    raise typer.Exit(_reading().show_list(at()))


def _show(at: Open, name: Slot) -> None:
    """Show one slot with all that is known of its definitions."""
    raise typer.Exit(_reading().show_slot(at(), name))


def _explain(
    at: Open,
    name: Slot,
    user: Annotated[str, typer.Option("--user", help="Whom it is about, as at the binding of turns.")],
    arm: Annotated[str, typer.Option("--arm", help="Arm of the experiment that the user is in.")] = "",
    when: Annotated[str, typer.Option("--at", help="A time in the past, e.g. 2026-11-22T14:05:00Z; UTC if bare.")] = "",
) -> None:
    """Say why a user gets, or does not get, a sub-agent; now, or then."""
    time = understood(moment_of, when) if when else None
    raise typer.Exit(_reading().explain(at(), _reading().ExplainWish(name, user, arm, time)))


def _preview(
    at: Open,
    name: Slot,
    percent: Annotated[str, typer.Argument(help="The proposed ramp, e.g. 5 or 0.25.")],
    digest: Digest = "",
) -> None:
    """Say how many of the users seen lately a ramp would add and take away. Changes nothing."""
    points = understood(basis_points, percent)
    raise typer.Exit(_reading().preview(at(), name, points, digest))


def _history(
    at: Open,
    name: Annotated[str, typer.Argument(help="Only of this definition.")] = "",
    slot: Annotated[str, typer.Option("--slot", help="Only of this slot.")] = "",
    after: Annotated[int, typer.Option("--after", min=0, help="Only rows with a higher number.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens, until interrupted.")] = False,
) -> None:
    """Print the audit, oldest first: what was asked for, by whom, why, and what came of it.

    With --json: one object a line.
    """
    raise typer.Exit(_reading().show_history(at(), _reading().HistoryWish(name, slot, after, follow)))


def _reading() -> ModuleType:
    from sidecar.cli import subagent_reading  # noqa: PLC0415  only these commands need gRPC

    return subagent_reading


def _operating(
    settings_of: SettingsOf,
    token_of: Callable[[], str],
    place: tuple[Path | None, tuple[str, ...], Path | None],
    *,
    as_json: bool,
) -> Any:
    from sidecar.cli.subagent_client import Where  # noqa: PLC0415  the same holds

    config, targets, token_file = place
    token = token_of() if token_file is None else _token_in(token_file)
    if not targets:
        try:
            targets = (f"unix:{settings_of(config).operators.socket}",)
        except typer.Exit:
            typer.echo("name the sidecar's settings file with --config, or its operator socket with --target", err=True)
            raise
    ask = _confirmed if sys.stdin.isatty() else None
    return _reading().Operating(Where(targets, token.strip()), sys.stdout, sys.stderr, as_json, ask)


def _confirmed(question: str) -> bool:
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:  # Ctrl-C and Ctrl-D mean no
        return False


def _token_in(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except (OSError, ValueError) as problem:
        typer.echo(f"the role token cannot be read from {file}: {type(problem).__name__}", err=True)
        raise typer.Exit(EX_USAGE) from None
