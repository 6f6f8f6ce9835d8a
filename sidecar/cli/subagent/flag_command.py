"""Declares the command `sidecar subagent flag`. gRPC is imported only when it runs."""

from enum import StrEnum, unique
from typing import Annotated, Any, NamedTuple

import typer

from sidecar.cli.record.turn_commands import given_by
from sidecar.cli.subagent import step_commands
from sidecar.cli.subagent.options import EX_USAGE, EXIT_CODES, Digest, Open, Placed
from sidecar.cli.subagent.options import Slot as SlotOrId
from sidecar.cli.subagent.step_commands import OptionsOf, RequestId, Revision, SlotOption


@unique
class FlagChoice(StrEnum):
    """One of a definition's two flags."""

    KILL = "kill"
    COHORT = "cohort"


@unique
class FlagState(StrEnum):
    """The value to switch a flag to."""

    ON = "on"
    OFF = "off"


Why = Annotated[str, typer.Option("--reason", "-m", help="The reason, for the audit. Required to switch a flag.")]
Version = Annotated[
    int | None,
    typer.Option("--flag-version", min=0, help="The expected version of the flag; `flag NAME` prints it."),
]


class FlagCommandOptions(NamedTuple):
    """The options of the command that every step has.

    Attributes:
        make: builds the `StepOptions` of a switch.
        reason: for the audit; empty if none was given, because showing the flags needs none.
    """

    make: OptionsOf
    reason: str


def add_flag(group: typer.Typer, placed: Placed) -> None:
    """Add the command. `placed` adds the options for the sidecar's address."""
    # Adds the options of `step_modes` and `_flag_options` to the command, which gets what `_flag_options` returns.
    with_options = given_by(given_by(step_commands.step_modes, "step_modes")(_flag_options), "options")
    group.command(name="flag", epilog=EXIT_CODES)(placed(with_options(_flag)))


def _flag_options(
    step_modes: dict[str, Any],
    reason: Why = "",
    request_id: RequestId = "",
    slot: SlotOption = "",
    digest: Digest = "",
    revision: Revision = None,
) -> FlagCommandOptions:
    return FlagCommandOptions(step_commands.options_of(step_modes, reason, request_id, slot, digest, revision), reason)


def _flag(
    at: Open,
    options: FlagCommandOptions,
    name: SlotOrId,
    which: Annotated[FlagChoice | None, typer.Argument(help="One of the two flags. Default: show both.")] = None,
    to: Annotated[FlagState | None, typer.Argument(help="Switch the flag. Default: show it.")] = None,
    version: Version = None,
) -> None:
    """Show the flags of a sub-agent, or switch one manually.

    cohort off: pauses the definition; state and ramp stay. cohort on: ends the pause. kill off: kills every definition
    with this kill flag permanently, after a confirmation. The command creates no flag. It can switch a flag on
    only after the ramp has switched it on for the first time. With a read-only flag backend the command prints the edit
    instead.
    """
    from sidecar.cli.subagent import flag  # noqa: PLC0415  only this command needs gRPC

    # `at()` returns the `OperatorCommands`: the address of the sidecar, the credentials and the output.
    if which is None or to is None:
        raise typer.Exit(flag.show_flags(at(), name, which.value if which else ""))
    # Checked here because --reason is optional: showing the flags needs none.
    if not options.reason.strip():
        typer.echo("give the reason, for the audit, with --reason", err=True)
        raise typer.Exit(EX_USAGE)
    switch = flag.switch_on if to is FlagState.ON else flag.switch_off
    raise typer.Exit(switch(at(), options.make(name), which.value, version))
