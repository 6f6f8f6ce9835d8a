"""Declares the group `sidecar subagent`, its reading commands, and `sidecar erase`. gRPC is imported when one runs."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sidecar.cli.parameters.moments import moment_of
from sidecar.cli.parameters.plain_values import PlainTyper
from sidecar.cli.record.turn_commands import SettingsOf, given_by
from sidecar.cli.subagent.options import (
    ERASE_EXIT_CODES,
    EX_USAGE,
    EXIT_CODES,
    AsJson,
    Config,
    CredentialFiles,
    ErasePlace,
    Name,
    Open,
    Placed,
    Slot,
    Targets,
    TlsFolder,
    TokenFile,
    Watch,
    WholeDigest,
    parse_or_exit,
    socket_of,
    token_in,
)
from sidecar.cli.subagent.output.parsing import basis_points

if TYPE_CHECKING:
    from sidecar.cli.validate.checkouts import Checkouts

NOWHERE: Final = "unix:/nowhere"
"""Target of a command that contacts no sidecar."""


@dataclass(frozen=True, slots=True)
class FromEnvironment:
    """Defaults from the environment, read when a command runs. Empty: not set.

    Attributes:
        token: the role token, `SIDECAR_ROLE_TOKEN`.
        target: the operator listener, `SIDECAR_TARGET`.
    """

    token: Callable[[], str]
    target: Callable[[], str]


def add_subagent(
    app: typer.Typer,
    settings_of: SettingsOf,
    environment: FromEnvironment,
    checkouts: "Callable[[], Checkouts]",
    erase_offline: Callable[..., Any],
    requested: str = "",
) -> typer.Typer:
    """Add the commands; return the group `subagent`.

    Args:
        app: the command line.
        settings_of: reads the settings, or ends the command.
        environment: defaults of token and target.
        checkouts: reads checkouts of the configuration repository.
        erase_offline: erases in a record that no sidecar has open; takes settings, options and `preview`.
        requested: the command that runs. Once it is added, the others are not, because each module costs time to load.
    """
    group = PlainTyper(no_args_is_help=True, help="Show and change the rollout of sub-agents.", epilog=EXIT_CODES)
    app.add_typer(group, name="subagent")

    place = place_of_operators(settings_of, environment)
    placed = given_by(place, "at")
    _add_reading(group, placed)
    if requested not in names_in(group):
        from sidecar.cli.subagent.status_command import add_status  # noqa: PLC0415  loaded for its own commands only

        add_status(app, placed)
        _add_erase(app, settings_of, place, erase_offline)
    if requested not in names_in(group, app):
        _add_changing(group, placed, checkouts, requested)
    return group


def names_in(*apps: typer.Typer) -> set[str | None]:
    """Return the names of all commands and groups that were added to these apps."""
    commands = {each.name for app in apps for each in app.registered_commands}
    return commands | {each.name for app in apps for each in app.registered_groups}


def _add_changing(group: typer.Typer, placed: Placed, checkouts: "Callable[[], Checkouts]", requested: str) -> None:
    from sidecar.cli.subagent.flag_command import add_flag  # noqa: PLC0415  loaded for its own commands only
    from sidecar.cli.subagent.step_commands import add_steps  # noqa: PLC0415  loaded for its own commands only

    steps = add_steps(group, placed)
    add_flag(group, placed)
    if requested not in names_in(group):
        from sidecar.cli.subagent.decommission_command import add_decommission  # noqa: PLC0415  few commands need it

        add_decommission(group, placed, steps, checkouts)


def place_of_operators(settings_of: SettingsOf, environment: FromEnvironment) -> Callable[..., Open]:
    """Return the options for the address of a sidecar and the role token, as a function for `given_by`."""

    def place(
        config: Config = None,
        target: Targets = None,
        token_file: TokenFile = None,
        tls: TlsFolder = None,
        as_json: AsJson = False,
    ) -> Open:
        def operator_commands(*, offline: bool = False) -> Any:
            targets = tuple(target or ()) or ((NOWHERE,) if offline else ())
            files = CredentialFiles(token_file, tls)
            return _operator_commands(settings_of, environment, config, targets, files, as_json=as_json)

        return operator_commands

    return place


def _add_reading(group: typer.Typer, placed: Placed) -> None:
    for name, command in (
        ("list", _list),
        ("show", _show),
        ("explain", _explain),
        ("preview", _preview),
        ("history", _history),
        ("active-periods", _active_periods),
    ):
        group.command(name=name, epilog=EXIT_CODES)(placed(command))


def _add_erase(
    app: typer.Typer, settings_of: SettingsOf, place: Callable[..., Open], erase_offline: Callable[..., Any]
) -> None:
    def place_of_record(
        config: Config = None,
        target: Targets = None,
        token_file: TokenFile = None,
        tls: TlsFolder = None,
        as_json: AsJson = False,
    ) -> ErasePlace:
        def offline(options: Any, *, preview: bool) -> Any:
            return erase_offline(settings_of(config), options, preview=preview)

        through_sidecar = place(config=config, target=target, token_file=token_file, tls=tls, as_json=as_json)
        return ErasePlace(through_sidecar, offline)

    app.command(name="erase", epilog=ERASE_EXIT_CODES)(given_by(place_of_record, "at")(_erase))


def _list(at: Open, watch: Watch = False) -> None:
    """List all definitions with state, flags, gate verdicts, breaches, pinned turns and drift.

    If the store is unavailable, the command shows what this replica serves, marks it, and ends with exit code 3.
    `sidecar validate-refs --rollout-export` reads the output of --json.
    """
    raise typer.Exit(_views_module().show_list(at(), watch=watch))


def _show(at: Open, name: Slot) -> None:
    """Show one slot and its definitions in full. If the store is unavailable: what this replica serves."""
    raise typer.Exit(_views_module().show_slot(at(), name))


def _explain(
    at: Open,
    name: Slot,
    user: Annotated[str, typer.Option("--user", help="The user's principal, as in BindTurn.")],
    arm: Annotated[str, typer.Option("--arm", help="The user's arm in the experiment.")] = "",
    when: Annotated[str, typer.Option("--at", help="A time in the past: 10m, 2h ago, or ISO 8601.")] = "",
) -> None:
    """Explain why a user gets, or does not get, a sub-agent, now or at an earlier time."""
    time = parse_or_exit(lambda text: moment_of(text, datetime.now(UTC)), when) if when else None
    raise typer.Exit(_views_module().explain(at(), _views_module().ExplainOptions(name, user, arm, time)))


def _preview(
    at: Open,
    name: Annotated[str, typer.Argument(help="Id of the definition, or a slot: its active definition.")],
    percent: Annotated[str, typer.Argument(help="The proposed ramp, e.g. 5 or 0.25.")],
    digest: WholeDigest = "",
) -> None:
    """Show how many recent users a ramp would add and remove. Changes nothing."""
    raise typer.Exit(_views_module().preview(at(), name, parse_or_exit(basis_points, percent), digest))


def _history(
    at: Open,
    name: Annotated[str, typer.Argument(help="Only of this definition.")] = "",
    slot: Annotated[str, typer.Option("--slot", help="Only of this slot.")] = "",
    after: Annotated[int, typer.Option("--after", min=0, help="Only rows with a higher number.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new rows until interrupted.")] = False,
) -> None:
    """Print the audit, oldest first: each request with operator, reason and result. --json: one object per line."""
    raise typer.Exit(_views_module().show_history(at(), _views_module().HistoryOptions(name, slot, after, follow)))


def _active_periods(
    at: Open,
    name: Name,
    user: Annotated[str, typer.Option("--user", help="The user's principal, as in BindTurn.")] = "",
    share: Annotated[
        str, typer.Option("--share", help="Or a share of the users in percent, e.g. 30; 100: all users.")
    ] = "",
    slot: Annotated[str, typer.Option("--slot", help="The slot, if it is in several.")] = "",
) -> None:
    """List the periods in which a sub-agent was active for one user, or for a whole share of the users."""
    if bool(user) == bool(share):
        typer.echo("give the users: either --user, or --share with a percentage", err=True)
        raise typer.Exit(EX_USAGE)
    points = parse_or_exit(basis_points, share) if share else 0
    # Refused here: in the request, a share of 0 means that no share is given.
    if share and not points:
        typer.echo("a share of 0 % contains no user", err=True)
        raise typer.Exit(EX_USAGE)
    from sidecar.cli.subagent import activity  # noqa: PLC0415  only these commands need gRPC

    options = activity.ActivePeriodsOptions(name, user, points, slot)
    raise typer.Exit(activity.show_active_periods(at(), options))


def _erase(
    at: ErasePlace,
    principal: Annotated[str, typer.Option("--principal", help="The user whose content is erased.")],
    reason: Annotated[str, typer.Option("--reason", help="The reason, for the log; it must not identify the user.")],
    preview: Annotated[bool, typer.Option("--preview", help="Only count the content.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Erase in the SQLite file that --config names; no sidecar may run on it.")
    ] = False,
) -> None:
    """Erase the content of one user: requests, answers, tool data, frames, conversations. Ids and times stay.

    Nothing is erased while a turn of the user is open.

    A signed marker records how many facts lost their text, without the user's identity; `sidecar verify-log` passes.

    If the command is interrupted, run it again to continue. New appends wait while the database files are rewritten.

    Uses the operator listener and needs a role token, like `sidecar subagent`. With --offline the command contacts no
    sidecar; it needs write access to the record, its checkpoints and their key.
    """
    from sidecar.cli.subagent import erasing  # noqa: PLC0415  only these commands need gRPC

    options = erasing.EraseOptions(principal, reason, preview, yes)
    if not offline:
        raise typer.Exit(erasing.erase(at.opened(), options))

    from sidecar.cli.record.backup import run_or_exit  # noqa: PLC0415  only --offline needs it

    def in_the_file(preview: bool) -> Any:
        return run_or_exit(lambda: at.offline(options, preview=preview))

    raise typer.Exit(erasing.erase_offline(at.opened(offline=True), options, in_the_file))


def _views_module() -> ModuleType:
    from sidecar.cli.subagent import views  # noqa: PLC0415  only these commands need gRPC

    return views


def _operator_commands(
    settings_of: SettingsOf,
    environment: FromEnvironment,
    config: Path | None,
    targets: tuple[str, ...],
    files: CredentialFiles,
    *,
    as_json: bool,
) -> Any:
    from sidecar.cli.subagent.client import SidecarAddress  # noqa: PLC0415  only these commands need gRPC

    token = environment.token() if files.token is None else token_in(files.token)
    # An explicit --config takes precedence over the variable, which may be left over in the shell.
    if not targets and config is None and (named := environment.target().strip()):
        targets = (named,)
    if not targets:
        targets = (socket_of(config, settings_of),)
    ask = _ask_yes_or_no if sys.stdin.isatty() else None
    where = SidecarAddress(targets, token.strip(), files.tls)
    return _views_module().OperatorCommands(where, sys.stdout, sys.stderr, as_json, ask)


def _ask_yes_or_no(question: str) -> bool:
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:  # Ctrl-C and Ctrl-D mean no
        return False
