"""`sidecar subagent flag`: the command. What it needs beside this is imported when it runs."""

from enum import StrEnum, unique
from typing import Annotated, Any, NamedTuple

import typer

from sidecar.cli.record.turn_commands import given_by
from sidecar.cli.subagent.options import EX_USAGE, EXIT_CODES, Digest, Open, Placed, Slot
from sidecar.cli.subagent.step_commands import RequestId, Revision, SlotOption, WishOf, ways, wish_of


@unique
class FlagChoice(StrEnum):
    """Which of the two flags."""

    KILL = "kill"
    COHORT = "cohort"


@unique
class FlagState(StrEnum):
    """Where a flag is switched to."""

    ON = "on"
    OFF = "off"


Why = Annotated[str, typer.Option("--reason", "-m", help="Why; goes into the audit. Required to switch.")]
Version = Annotated[
    int | None, typer.Option("--flag-version", min=0, help="Expect this version of the flag, as the table shows it.")
]


class Wished(NamedTuple):
    """What makes the wish of a step, and why it is wished."""

    make: WishOf
    reason: str


def add_flag(group: typer.Typer, placed: Placed) -> None:
    """Add the command; `placed` gives it the options that say where the sidecar is."""
    asked = given_by(given_by(ways, "ways")(_wish_of), "wished")
    group.command(name="flag", epilog=EXIT_CODES)(placed(asked(_flag)))


def _wish_of(
    ways: dict[str, Any],
    reason: Why = "",
    request_id: RequestId = "",
    slot: SlotOption = "",
    digest: Digest = "",
    revision: Revision = None,
) -> Wished:
    return Wished(wish_of(ways, reason, request_id, slot, digest, revision), reason)


def _flag(
    at: Open,
    wished: Wished,
    name: Slot,
    which: Annotated[FlagChoice | None, typer.Argument(help="Which of the two; both are shown without it.")] = None,
    to: Annotated[FlagState | None, typer.Argument(help="Switch it; without this the flags are shown.")] = None,
    version: Version = None,
) -> None:
    """Show the flags of a sub-agent, or switch one by hand.

    cohort off: it serves nobody until cohort on, and stays in promote at its ramp. cohort on: whoever its ramp reaches
    is served again. kill off: it is killed for good, with whoever else is behind that flag; asks for confirmation. No
    flag is created, and none comes on that the ramp has not switched on. With a flag backend that the sidecar does not
    write the edit is printed.
    """
    from sidecar.cli.subagent import flag  # noqa: PLC0415  only this command needs gRPC

    if which is None or to is None:
        raise typer.Exit(flag.show_flags(at(), name, which.value if which else ""))
    if not wished.reason.strip():
        typer.echo("say why with --reason; it goes into the audit", err=True)
        raise typer.Exit(EX_USAGE)
    switch = flag.switch_on if to is FlagState.ON else flag.switch_off
    raise typer.Exit(switch(at(), wished.make(name), which.value, version))
