"""Declares the commands of `sidecar subagent` that change a rollout.

Each requires a reason, and can be repeated safely with the same request id.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from types import ModuleType
from typing import Annotated, Any, Final

import typer

from sidecar.cli.record.turn_commands import given_by
from sidecar.cli.subagent.options import EX_USAGE, EXIT_CODES, Digest, Name, Open, Placed, parse_or_exit
from sidecar.cli.subagent.output.parsing import basis_points, curve_of, duration_of, window_end

Reason = Annotated[str, typer.Option("--reason", "-m", help="The reason, for the audit.")]
RequestId = Annotated[
    str, typer.Option("--request-id", help="Repeat an earlier request; all other arguments must be the same.")
]
SlotOption = Annotated[str, typer.Option("--slot", help="The slot, if the id is in several slots.")]
Revision = Annotated[
    int | None, typer.Option("--revision", min=0, help="The expected revision. Default: the current one.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check rules, policies and gates; write nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Wait = Annotated[
    bool,
    typer.Option("--wait", help="Wait for flags that the step needs, and until every living replica shows the change."),
]
Patience = Annotated[str, typer.Option("--timeout", help="Time limit of --wait, e.g. 90s, 5m, 1h.")]
Percent = Annotated[str, typer.Argument(help="Percent of users, 0 to 100 with at most two decimals, e.g. 5 or 0.25.")]

LONG: Final = "4h"
"""Default duration of an override."""


class Mode(StrEnum):
    """Values of --mode. Source: TN-72."""

    EXPERIMENT = "experiment"
    COHORT = "cohort"
    FULL = "full"


OptionsOf = Callable[[str], Any]
"""Returns the `StepOptions` for a definition's id."""


def add_steps(group: typer.Typer, placed: Placed) -> Placed:
    """Add the commands. `placed` adds the options for the sidecar's address to a command.

    Returns:
        A decorator that adds the options of every step to a command.
    """
    # Adds the options of `step_modes` and `options_of` to a command, which gets what `options_of` returns.
    with_options = given_by(given_by(step_modes, "step_modes")(options_of), "options_of")
    for name, command in (
        ("promote", _promote),
        ("ramp", _ramp),
        ("configure", _configure),
        ("ramp-down", _ramp_down),
        ("rollback", _roll_back),
        ("activate", _activate),
        ("kill", _kill),
        ("override", _override),
        ("acknowledge-breach", _acknowledge),
        ("retire-flags", _retire_flags),
    ):
        group.command(name=name, epilog=EXIT_CODES)(placed(with_options(command)))
    return with_options


def options_of(
    step_modes: dict[str, Any],
    reason: Reason,
    request_id: RequestId = "",
    slot: SlotOption = "",
    digest: Digest = "",
    revision: Revision = None,
) -> OptionsOf:
    """Return a function that builds `StepOptions` for an id. The parameters are the options of every step."""

    def options(name: str) -> Any:
        from sidecar.cli.subagent.step_target import StepOptions  # noqa: PLC0415  only these commands need gRPC

        return StepOptions(name, reason, request_id, slot, digest, revision, **step_modes)

    return options


def step_modes(
    dry_run: DryRun = False, yes: Yes = False, wait: Wait = False, timeout: Patience = "5m"
) -> dict[str, Any]:
    """Return the options that control how a step is taken."""
    return {"dry_run": dry_run, "yes": yes, "wait": wait, "patience": parse_or_exit(duration_of, timeout)}


def _promote(
    at: Open,
    options_of: OptionsOf,
    name: Name,
    to_test: Annotated[bool, typer.Option("--to-test", help="Only from dev to test.")] = False,
) -> None:
    """Move a definition to test, and then to promote (at 0 %, not active) if the gate pre_merge passes.

    If an id has a promoted content and one that is not promoted yet (after a major change), the latter is meant.
    """
    raise typer.Exit(_verbs().promote(at(), options_of(name), to_test=to_test))


def _ramp(at: Open, options_of: OptionsOf, name: Name, percent: Percent) -> None:
    """Set the share of users that a promoted definition serves. A raise needs the gate pre_ramp; to 100, pre_full.

    The first ramp makes the definition active and switches its flags on. With a read-only flag backend the command
    prints the edit instead; with --wait it takes the step once the sidecar sees the flags on.
    """
    points = parse_or_exit(basis_points, percent)
    raise typer.Exit(_verbs().ramp(at(), options_of(name), points))


def _configure(
    at: Open,
    options_of: OptionsOf,
    name: Name,
    mode: Annotated[
        Mode | None,
        typer.Option("--mode", help="experiment (or cohort): excludes the control arm; full: all users."),
    ] = None,
    curve: Annotated[str, typer.Option("--curve", help="Permitted ramp steps, e.g. 5,25,50,100; none: any step.")] = "",
) -> None:
    """Declare the mode and the ramp curve of a slot. No ramp changes; an omitted option keeps its value.

    A change from experiment to full admits the control arm. If the slot serves users, the gate of the current ramp must
    pass.
    """
    # Both would keep their values, so there is no step to take.
    if mode is None and not curve:
        typer.echo("nothing to declare; give --mode, --curve or both", err=True)
        raise typer.Exit(EX_USAGE)
    steps = parse_or_exit(curve_of, curve) if curve else None
    raise typer.Exit(_verbs().configure(at(), options_of(name), "" if mode is None else mode.value, steps))


def _ramp_down(
    at: Open,
    options_of: OptionsOf,
    name: Name,
    breach: Annotated[str, typer.Option("--breach", help="Id of the breach, as the monitoring system reports it.")],
) -> None:
    """Set a ramp to 0 because a safety floor was breached. Needs no gate; the next raise needs `acknowledge-breach`."""
    raise typer.Exit(_verbs().ramp_down(at(), options_of(name), breach))


def _roll_back(
    at: Open,
    options_of: OptionsOf,
    name: Name,
    to: Annotated[str, typer.Option("--to", help="The successor: an id or digest in the slot, or none.")] = "",
) -> None:
    """Roll a definition back permanently; the definition that it replaced serves again at its own ramp.

    If that definition can no longer serve, name another one that was active before with --to, or none: then the slot
    stays empty until a definition is activated. Asks for confirmation.
    """
    raise typer.Exit(_verbs().roll_back(at(), options_of(name), to))


def _activate(at: Open, options_of: OptionsOf, name: Name) -> None:
    """Let a promoted definition serve its empty slot again, at its last ramp."""
    raise typer.Exit(_verbs().activate(at(), options_of(name)))


def _kill(at: Open, options_of: OptionsOf, name: Name) -> None:
    """Remove a definition from every surface immediately and permanently. Asks for confirmation.

    --target may be given several times: the command sends the kill to all targets concurrently and names those that it
    did not reach. A sidecar applies the kill even while flag backend and store are unavailable.
    """
    from sidecar.cli.subagent.kill import kill  # noqa: PLC0415  only this command needs it

    raise typer.Exit(kill(at(), options_of(name)))


def _override(
    at: Open,
    options_of: OptionsOf,
    name: Name,
    gate: Annotated[str, typer.Option("--gate", help="pre_merge, pre_ramp or pre_full.")],
    to: Annotated[str, typer.Option("--to", help="Ramp after the step, in percent; 0 for pre_merge.")] = "0",
    until: Annotated[str, typer.Option("--until", help="End of the override: 30m, 4h, or a time; at most 31d.")] = LONG,
) -> None:
    """Permit one step although one gate failed. An outage or a policy cannot be overridden. Takes no step itself."""
    points, expires_at = (
        parse_or_exit(basis_points, to),
        parse_or_exit(lambda text: window_end(text, datetime.now(UTC)), until),
    )
    raise typer.Exit(_verbs().override(at(), options_of(name), gate, points, expires_at))


def _acknowledge(
    at: Open,
    options_of: OptionsOf,
    name: Name,
    breach: Annotated[str, typer.Option("--breach", help="Id of the breach. Default: the open breach.")] = "",
) -> None:
    """Acknowledge a breach. The next raise of the ramp needs the acknowledgement."""
    raise typer.Exit(_verbs().acknowledge(at(), options_of(name), breach))


def _retire_flags(at: Open, options_of: OptionsOf, name: Name) -> None:
    """Release both flags of a definition that serves all users; it then counts as always on. Asks for confirmation."""
    raise typer.Exit(_verbs().retire_flags(at(), options_of(name)))


def _verbs() -> ModuleType:
    from sidecar.cli.subagent import verbs  # noqa: PLC0415  only these commands need gRPC

    return verbs
