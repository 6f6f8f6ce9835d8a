"""The commands that show turns. What they need beside this is imported when one of them runs."""

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
    Path | None, typer.Option("--config", "-c", help="The sidecar's settings file; says where it listens.")
]
Target = Annotated[
    str, typer.Option("--target", help="Where it listens instead, e.g. unix:/run/sidecar/dispatch/sidecar.sock.")
]
SecretFile = Annotated[
    Path | None, typer.Option("--boot-secret-file", help="Where it wrote its boot secret; goes with --target.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Most turns.")]
EXIT_CODES = (
    "Exit codes: 0 shown, 1 nothing of that name, 2 not understood, 69 the sidecar or its store is away, "
    "77 the boot secret is wrong, 78 wrong settings."
)

SettingsOf = Callable[[Path | None], "Settings"]
Open = Callable[[], Any]
"""Returns a `Seeing`: where the sidecar is, and where to print. Reads the settings if it has to."""


@unique
class State(StrEnum):
    """States to choose from."""

    OPEN = "open"
    ENDED = "ended"
    LOST = "lost"


@unique
class CallEnd(StrEnum):
    """Outcomes to choose from."""

    SUCCEEDED = "succeeded"
    DEGRADED = "degraded"
    FAILED = "failed"
    DROPPED = "dropped"
    REFUSED = "refused"
    NOT_STARTED = "not_started"


def add_record_commands(app: typer.Typer, settings_of: SettingsOf) -> None:
    """Add `turns`, `turn` and `episodes`.

    Args:
        app: the command line.
        settings_of: reads the settings, or ends the command.
    """
    placed = with_place(settings_of)
    turns = given_by(_of_what, "what")(given_by(_of_whom_and_when, "whom")(_turns))
    app.command(name="turns", epilog=EXIT_CODES)(placed(turns))
    app.command(name="turn", epilog=EXIT_CODES)(placed(_turn))
    episodes = PlainTyper(help="Conversations: which there are, and what was said.", epilog=EXIT_CODES)
    app.add_typer(episodes, name="episodes")
    episodes.callback(invoke_without_command=True)(placed(_episodes))
    episodes.command(name="show", epilog=EXIT_CODES)(placed(_episode))


def with_place(settings_of: SettingsOf) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what gives a command the options that say where the sidecar is; the command takes `at` instead."""

    def place(config: Config = None, target: Target = "", boot_secret_file: SecretFile = None) -> Open:
        return lambda: _seeing(settings_of, config, target, boot_secret_file)

    return given_by(place, "at")


def given_by(made: Callable[..., object], into: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what gives a command the options of `made`; the command takes what that returns as `into` instead."""
    options = signature(made).parameters

    def given_to(command: Callable[..., Any]) -> Callable[..., Any]:
        def run(**given: Any) -> Any:
            return command(**{into: made(**{name: given.pop(name) for name in options})}, **given)

        own = [each for name, each in signature(command).parameters.items() if name != into]
        taken = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*own, *options.values())]
        run.__signature__ = Signature(taken)  # type: ignore[attr-defined]  # typer asks `inspect`, which honours it
        run.__annotations__ = {each.name: each.annotation for each in taken}
        run.__doc__ = command.__doc__
        return run

    return given_to


def _of_what(
    episode: Annotated[str, typer.Option(help="Only of this conversation.")] = "",
    slot: Annotated[str, typer.Option(help="Only those that called this sub-agent.")] = "",
    state: Annotated[State | None, typer.Option(help="Only those in this state.")] = None,
    outcome: Annotated[CallEnd | None, typer.Option(help="Only those in which a call ended so.")] = None,
    definition: Annotated[str, typer.Option(help="Only those in which a child ran this definition.")] = "",
) -> dict[str, str]:
    states = {"state": "" if state is None else state.value, "outcome": "" if outcome is None else outcome.value}
    return {"episode": episode, "slot": slot, "definition": definition} | states


def _of_whom_and_when(
    user: Annotated[str, typer.Option(help="Only of this user.")] = "",
    since: Annotated[str, typer.Option(help="Only those that began then or later: 10m, 2h ago, or ISO 8601.")] = "",
    until: Annotated[str, typer.Option(help="Only those that began before; as --since.")] = "",
) -> dict[str, str]:
    return {"user": user, "since": since, "until": until}


def _turns(at: Open, what: dict[str, str], whom: dict[str, str], limit: Limit = 20, as_json: AsJson = False) -> None:
    """List the turns on record, newest first. Then look at one with `sidecar turn <id>`."""
    made = _module()
    raise typer.Exit(made.show_turns(at(), made.TurnsWish(**what, **whom, limit=limit, as_json=as_json)))


def _turn(
    at: Open,
    turn_id: Annotated[str, typer.Argument(help="Which turn; `sidecar turns` lists them.")],
    expand: Annotated[bool, typer.Option("--expand", "-x", help="Contracts and all details, too.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Live, until the turn has ended.")] = False,
    child: Annotated[list[str] | None, typer.Option(help="Only this child; may be given again.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show one turn: a bar for each child on one axis of time, and a line for each event.

    In a bar, # is work, - is waiting for the parent to take the result. Delegated children are indented.
    With --follow and --json: one JSON object a line, for each event.
    """
    made = _module()
    raise typer.Exit(made.show_turn(at(), made.TurnWish(turn_id, tuple(child or ()), expand, follow, as_json)))


def _episodes(
    at: Open,
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="Most episodes.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the conversations on record, those used last first. Then read one with `sidecar episodes show`."""
    if context.invoked_subcommand is None:
        raise typer.Exit(_module().show_episodes(at(), limit, as_json=as_json))


def _episode(
    at: Open,
    episode: Annotated[str, typer.Argument(help="Which conversation.")],
    principal: Annotated[str, typer.Option(help="Whose it is; the list says so.")],
    full: Annotated[bool, typer.Option("--full", help="Tool messages, and turns under the summary, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Read one conversation: what the user said, what was answered, and what sub-agents were asked."""
    made = _module()
    raise typer.Exit(made.show_episode(at(), made.EpisodeWish(episode, principal, full, as_json)))


def _module() -> ModuleType:
    from sidecar.cli.record import turn_views  # noqa: PLC0415  only these commands need gRPC

    return turn_views


def _seeing(settings_of: SettingsOf, config: Path | None, target: str, secret_file: Path | None) -> Any:
    from sidecar.cli.record.client import Where  # noqa: PLC0415  the same holds

    where = Where(target, secret_file)
    if not target:
        try:
            server = settings_of(config).server
        except typer.Exit:
            typer.echo("name the sidecar's settings file with --config, or its socket with --target", err=True)
            raise
        where = Where(f"unix:{server.dispatch_socket}", secret_file or server.boot_secret_file)
    return _module().TurnCommands(where, sys.stdout, sys.stderr)
