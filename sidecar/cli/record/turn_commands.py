"""Declares `sidecar turns`, `turn` and `episodes` with their options. gRPC is imported only when one runs."""

import sys
from collections.abc import Callable
from enum import StrEnum, unique
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sidecar.cli.parameters.plain_values import PlainTyper

if TYPE_CHECKING:
    from sidecar.settings import Settings


Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="The sidecar's settings file, which contains its address.")
]
Target = Annotated[
    str,
    typer.Option("--target", help="Its address instead, e.g. unix:/run/sidecar/dispatch/sidecar.sock."),
]
SecretFile = Annotated[
    Path | None, typer.Option("--boot-secret-file", help="File with the sidecar's boot secret; required with --target.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Maximum number of turns.")]
EXIT_CODES = (
    "Exit codes: 0 shown; 1 not found; 2 invalid arguments; 69 the sidecar or its store is unavailable; "
    "77 wrong boot secret; 78 invalid settings."
)

SettingsOf = Callable[[Path | None], "Settings"]
"""Reads the settings from a file (None: only the environment); if they are invalid, ends the command."""
Open = Callable[[], Any]
"""Returns a `TurnCommands`: the address of the sidecar, and the output. Reads the settings if needed."""


@unique
class State(StrEnum):
    """The values of `--state`."""

    OPEN = "open"
    ENDED = "ended"
    LOST = "lost"


@unique
class CallEnd(StrEnum):
    """The values of `--outcome`."""

    SUCCEEDED = "succeeded"
    DEGRADED = "degraded"
    FAILED = "failed"
    DROPPED = "dropped"
    REFUSED = "refused"
    NOT_STARTED = "not_started"
    SUSPENDED = "suspended"


def add_record_commands(app: typer.Typer, settings_of: SettingsOf) -> None:
    """Add `turns`, `turn` and `episodes`.

    Args:
        app: the command line.
        settings_of: reads the settings, or ends the command.
    """
    placed = with_place(settings_of)
    # In two groups, because a function may have only few parameters.
    turns = given_by(_call_filters, "calls")(given_by(_user_and_time_filters, "user_and_times")(_turns))
    app.command(name="turns", epilog=EXIT_CODES)(placed(turns))
    app.command(name="turn", epilog=EXIT_CODES)(placed(_turn))
    episodes = PlainTyper(help="List and print conversations.", epilog=EXIT_CODES)
    app.add_typer(episodes, name="episodes")
    # `sidecar episodes` without a subcommand is the list.
    episodes.callback(invoke_without_command=True)(placed(_episodes))
    episodes.command(name="show", epilog=EXIT_CODES)(placed(_episode))


def with_place(settings_of: SettingsOf) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options for the sidecar's address; the command gets them as `at`."""

    def place(config: Config = None, target: Target = "", boot_secret_file: SecretFile = None) -> Open:
        # Called when the command runs, because it imports gRPC and may read the settings.
        return lambda: _turn_commands(settings_of, config, target, boot_secret_file)

    return given_by(place, "at")


def given_by(make: Callable[..., object], into: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds options to a command, so that several commands can share them.

    Typer derives the options of a command from its signature. The decorated command has its own parameters and those of
    `make`; when it runs, `make` is called with its parameters, and the command gets the result as the argument `into`.

    Args:
        make: a function whose parameters are options.
        into: the parameter of the command that receives the result.
    """
    options = signature(make).parameters

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        def run(**values: Any) -> Any:
            # `pop` is evaluated first, so `values` has only the command's own parameters left.
            return command(**{into: make(**{name: values.pop(name) for name in options})}, **values)

        command_parameters = [each for name, each in signature(command).parameters.items() if name != into]
        # By keyword only: otherwise a parameter without a default could not follow one with a default.
        combined = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*command_parameters, *options.values())]
        run.__signature__ = Signature(combined)  # type: ignore[attr-defined]  # typer asks `inspect`, which honours it
        # Typer reads the types from here, and the order and the defaults from the signature.
        run.__annotations__ = {each.name: each.annotation for each in combined}
        # Typer prints it as the help of the command.
        run.__doc__ = command.__doc__
        return run

    return decorate


def _call_filters(
    episode: Annotated[str, typer.Option(help="Only of this conversation.")] = "",
    slot: Annotated[str, typer.Option(help="Only turns that called this sub-agent.")] = "",
    state: Annotated[State | None, typer.Option(help="Only turns in this state.")] = None,
    outcome: Annotated[CallEnd | None, typer.Option(help="Only turns in which a call ended with this outcome.")] = None,
    definition: Annotated[str, typer.Option(help="Only turns in which a child ran this definition.")] = "",
    reason: Annotated[
        str, typer.Option(help="Only turns in which a call failed for this reason, e.g. RUNNER_FAILED.")
    ] = "",
) -> dict[str, str]:
    choices = {"state": "" if state is None else state.value, "outcome": "" if outcome is None else outcome.value}
    return {"episode": episode, "slot": slot, "definition": definition, "reason": reason.upper()} | choices


def _user_and_time_filters(
    user: Annotated[str, typer.Option(help="Only turns of this user.")] = "",
    since: Annotated[str, typer.Option(help="Only turns that began then or later: 10m, 2h ago, or ISO 8601.")] = "",
    until: Annotated[str, typer.Option(help="Only turns that began before this time; as --since.")] = "",
) -> dict[str, str]:
    return {"user": user, "since": since, "until": until}


def _turns(
    at: Open, calls: dict[str, str], user_and_times: dict[str, str], limit: Limit = 20, as_json: AsJson = False
) -> None:
    """List the recorded turns, newest first. `sidecar turn <id>` shows one."""
    views = _views()
    options = views.TurnsOptions(**calls, **user_and_times, limit=limit, as_json=as_json)
    raise typer.Exit(views.show_turns(at(), options))


def _turn(
    at: Open,
    turn_id: Annotated[str, typer.Argument(help="Id of the turn; `sidecar turns` lists them.")],
    expand: Annotated[bool, typer.Option("--expand", "-x", help="Include contracts and all details.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show events live until the turn has ended.")] = False,
    child: Annotated[list[str] | None, typer.Option(help="Only this child; repeatable.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show one turn: a bar for each child on one axis of time, and a line for each event.

    In a bar, # means that the sub-agent worked, - that its result waited for the parent. Delegated children are
    indented.
    With --follow and --json: one line with a JSON object for each event.
    """
    views = _views()
    raise typer.Exit(views.show_turn(at(), views.TurnOptions(turn_id, tuple(child or ()), expand, follow, as_json)))


def _episodes(
    at: Open,
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="Maximum number of episodes.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the recorded conversations, most recent first. `sidecar episodes show` prints one."""
    # Typer calls this function also before `show`.
    if context.invoked_subcommand is None:
        raise typer.Exit(_views().show_episodes(at(), limit, as_json=as_json))


def _episode(
    at: Open,
    episode: Annotated[str, typer.Argument(help="Id of the conversation.")],
    principal: Annotated[str, typer.Option(help="The user's principal, as in the list.")],
    full: Annotated[bool, typer.Option("--full", help="Include tool messages, and turns before the summary.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print one conversation: messages, answers, and requests to sub-agents."""
    views = _views()
    raise typer.Exit(views.show_episode(at(), views.EpisodeOptions(episode, principal, full, as_json)))


def _views() -> ModuleType:
    from sidecar.cli.record import turn_views  # noqa: PLC0415  only these commands need gRPC

    return turn_views


def _turn_commands(settings_of: SettingsOf, config: Path | None, target: str, secret_file: Path | None) -> Any:
    from sidecar.cli.record.client import SidecarAddress  # noqa: PLC0415  only these commands need gRPC

    where = SidecarAddress(target, secret_file)
    if not target:
        try:
            server = settings_of(config).server
        except typer.Exit:
            typer.echo("name the sidecar's settings file with --config, or its socket with --target", err=True)
            raise
        # An option takes precedence, e.g. for a copy of the secret that this user may read.
        where = SidecarAddress(f"unix:{server.dispatch_socket}", secret_file or server.boot_secret_file)
    return _views().TurnCommands(where, sys.stdout, sys.stderr)
