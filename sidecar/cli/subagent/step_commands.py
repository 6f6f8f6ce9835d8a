"""`sidecar subagent`: the commands that change something. Each says why, and can be repeated safely."""

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from types import ModuleType
from typing import Annotated, Any, Final

import typer

from sidecar.cli.record.turn_commands import given_by
from sidecar.cli.subagent.options import EX_USAGE, EXIT_CODES, Digest, Name, Open, Placed, understood
from sidecar.cli.subagent.output.parsing import basis_points, curve_of, duration_of, window_end

Reason = Annotated[str, typer.Option("--reason", "-m", help="Why; goes into the audit.")]
RequestId = Annotated[
    str, typer.Option("--request-id", help="Repeat an earlier attempt instead of a new one; all else as then.")
]
SlotOption = Annotated[str, typer.Option("--slot", help="The slot that is meant, if the id is in several.")]
Revision = Annotated[
    int | None, typer.Option("--revision", min=0, help="Expect this revision instead of the one that is read now.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Ask rules, policies and gates; write nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until flags are switched as needed, and every living replica shows it.")
]
Patience = Annotated[str, typer.Option("--timeout", help="How long --wait waits, e.g. 90s, 5m, 1h.")]
Percent = Annotated[str, typer.Argument(help="Percent of users, 0 to 100 with at most two decimals, e.g. 5 or 0.25.")]

LONG: Final = "4h"
"""How long an override holds unless it is said."""


class Mode(StrEnum):
    """What may be written for a mode. Source: TN-72."""

    EXPERIMENT = "experiment"
    COHORT = "cohort"
    FULL = "full"


WishOf = Callable[[str], Any]
"""Returns a `StepWish` for a name."""


def add_steps(group: typer.Typer, placed: Placed) -> Placed:
    """Add the commands; `placed` gives each the options that say where the sidecar is.

    Returns:
        What gives a command the options that every step has.
    """
    asked = given_by(given_by(ways, "ways")(wish_of), "wish_of")
    for name, command in (
        ("promote", _promote),
        ("ramp", _ramp),
        ("configure", _configure),
        ("ramp-down", _ramp_down),
        ("rollback", _roll_back),
        ("activate", _activate),
        ("kill", _kill),
        ("override", _override),
        ("acknowledge", _acknowledge),
        ("retire-flags", _retire_flags),
    ):
        group.command(name=name, epilog=EXIT_CODES)(placed(asked(command)))
    return asked


def wish_of(
    ways: dict[str, Any],
    reason: Reason,
    request_id: RequestId = "",
    slot: SlotOption = "",
    digest: Digest = "",
    revision: Revision = None,
) -> WishOf:
    """Return what makes a wish for a name; its arguments are the options that every step has."""

    def wished(name: str) -> Any:
        from sidecar.cli.subagent.steps import StepWish  # noqa: PLC0415  only these commands need gRPC

        return StepWish(name, reason, request_id, slot, digest, revision, **ways)

    return wished


def ways(dry_run: DryRun = False, yes: Yes = False, wait: Wait = False, timeout: Patience = "5m") -> dict[str, Any]:
    """Return how a step is taken."""
    return {"dry_run": dry_run, "yes": yes, "wait": wait, "patience": understood(duration_of, timeout)}


def _promote(
    at: Open,
    wish_of: WishOf,
    name: Name,
    to_test: Annotated[bool, typer.Option("--to-test", help="From dev to test, and no further.")] = False,
) -> None:
    """Bring a definition to test, and from there to promote (at 0 %, not active) once pre_merge has passed."""
    raise typer.Exit(_verbs().promote(at(), wish_of(name), to_test=to_test))


def _ramp(at: Open, wish_of: WishOf, name: Name, percent: Percent) -> None:
    """Set the share of users that a definition in promote serves. A raise asks pre_ramp, one to 100 pre_full.

    The first step makes it active and switches its flags on. With a read-only flag backend the edit is printed; with
    --wait the step is taken once the flag is seen.
    """
    points = understood(basis_points, percent)
    raise typer.Exit(_verbs().ramp(at(), wish_of(name), points))


def _configure(
    at: Open,
    wish_of: WishOf,
    name: Name,
    mode: Annotated[
        Mode | None,
        typer.Option("--mode", help="experiment (or cohort): not for its control arm; full: for all."),
    ] = None,
    curve: Annotated[
        str, typer.Option("--curve", help="The steps that its ramp may take, e.g. 5,25,50,100; none: any step.")
    ] = "",
) -> None:
    """Declare the rollout config of a slot: its mode, and the curve of its ramp. No ramp moves; what is left out stays.

    From experiment to full lets the control arm in: if somebody is served, the gate of the present ramp has to pass.
    """
    if mode is None and not curve:
        typer.echo("nothing to declare; give --mode, --curve, or both", err=True)
        raise typer.Exit(EX_USAGE)
    steps = understood(curve_of, curve) if curve else None
    raise typer.Exit(_verbs().configure(at(), wish_of(name), "" if mode is None else mode.value, steps))


def _ramp_down(
    at: Open,
    wish_of: WishOf,
    name: Name,
    breach: Annotated[str, typer.Option("--breach", help="Id of the breach, as whoever found it names it.")],
) -> None:
    """Set a ramp to 0 because a safety floor was breached. Waits for no gate; the next raise needs `acknowledge`."""
    raise typer.Exit(_verbs().ramp_down(at(), wish_of(name), breach))


def _roll_back(
    at: Open,
    wish_of: WishOf,
    name: Name,
    to: Annotated[str, typer.Option("--to", help="Who serves then: an id or digest of its slot, or none.")] = "",
) -> None:
    """Take a definition back, for good; whom it replaced serves again at its own ramp. Asks for confirmation.

    Where that one cannot serve any more, --to names another definition that was active before, or none: then nobody
    serves until one is activated.
    """
    raise typer.Exit(_verbs().roll_back(at(), wish_of(name), to))


def _activate(at: Open, wish_of: WishOf, name: Name) -> None:
    """Put a definition that is still in promote back into an empty slot, at its own last ramp."""
    raise typer.Exit(_verbs().activate(at(), wish_of(name)))


def _kill(at: Open, wish_of: WishOf, name: Name) -> None:
    """Take a definition off every surface at once, for everybody and for good. Asks for confirmation.

    --target may be given several times: all are asked at the same time, and those that were not reached are named.
    One that is reached holds the kill even while flags and store are away.
    """
    from sidecar.cli.subagent.kill import kill  # noqa: PLC0415  only this command needs it

    raise typer.Exit(kill(at(), wish_of(name)))


def _override(
    at: Open,
    wish_of: WishOf,
    name: Name,
    gate: Annotated[str, typer.Option("--gate", help="pre_merge, pre_ramp or pre_full.")],
    to: Annotated[str, typer.Option("--to", help="Percent that the step leads to; 0 for pre_merge.")] = "0",
    until: Annotated[str, typer.Option("--until", help="How long it holds: 30m, 4h, or a time; 31d at most.")] = LONG,
) -> None:
    """Let one fail of one gate pass for one step; never an outage, never what a policy denies. Takes no step itself."""
    points, expires_at = (
        understood(basis_points, to),
        understood(lambda text: window_end(text, datetime.now(UTC)), until),
    )
    raise typer.Exit(_verbs().override(at(), wish_of(name), gate, points, expires_at))


def _acknowledge(
    at: Open,
    wish_of: WishOf,
    name: Name,
    breach: Annotated[str, typer.Option("--breach", help="Which breach; else the one that is open.")] = "",
) -> None:
    """Take note of a breach; the next raise needs that."""
    raise typer.Exit(_verbs().acknowledge(at(), wish_of(name), breach))


def _retire_flags(at: Open, wish_of: WishOf, name: Name) -> None:
    """Let the two flags of a definition that serves everybody go: it counts as always on. Asks for confirmation."""
    raise typer.Exit(_verbs().retire_flags(at(), wish_of(name)))


def _verbs() -> ModuleType:
    from sidecar.cli.subagent import verbs  # noqa: PLC0415  only these commands need gRPC

    return verbs
