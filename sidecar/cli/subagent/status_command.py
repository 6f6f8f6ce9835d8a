"""Declares `sidecar status`, `sidecar drain` and `sidecar end-turn`. gRPC is imported only when one runs."""

from typing import Annotated, Final

import typer

from sidecar.cli.subagent.options import TURN_EXIT_CODES, Open, Placed, Watch

STATUS_EXIT_CODES: Final = (
    "Exit codes: 0 shown; 2 not sent (no sidecar, no token, wrong role); 3 only the process is shown, because its "
    "store is unavailable; 78 invalid settings."
)
DRAIN_EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 refused; 2 not sent (no sidecar, no token, wrong role, not confirmed, invalid arguments); "
    "78 invalid settings."
)


def add_status(app: typer.Typer, placed: Placed) -> None:
    """Add the commands. `placed` adds the options for the sidecar's address."""
    app.command(name="status", epilog=STATUS_EXIT_CODES)(placed(_status))
    app.command(name="drain", epilog=DRAIN_EXIT_CODES)(placed(_drain))
    app.command(name="end-turn", epilog=TURN_EXIT_CODES)(placed(_end_turn))


def _status(at: Open, watch: Watch = False) -> None:
    """Show what a sidecar serves, for whom and since which step, and what needs attention.

    Uses the operator listener and needs a role token, like `sidecar subagent`. While the store is unavailable, the
    command shows the process and why it is not ready.
    """
    from sidecar.cli.subagent import status  # noqa: PLC0415  only these commands need gRPC

    raise typer.Exit(status.show_status(at(), watch=watch))


def _drain(
    at: Open,
    reason: Annotated[str, typer.Option("--reason", help="The reason, for the log.")],
    resume: Annotated[bool, typer.Option("--resume", help="Accept new turns again.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Stop new turns at one sidecar; running turns continue, and the process does not end.

    Uses the operator listener and needs a role token, like `sidecar subagent`.
    """
    from sidecar.cli.subagent import status, step_target  # noqa: PLC0415  only these commands need gRPC

    raise typer.Exit(status.drain(at(), step_target.StepOptions("", reason, yes=yes), resume=resume))


def _end_turn(
    at: Open,
    turn_id: Annotated[str, typer.Argument(help="Id of the turn; `sidecar turns --state open` lists them.")],
    reason: Annotated[str, typer.Option("--reason", help="The reason, for the log.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """End a turn that its parent does not end: stop its calls, close its children, write its routing decision.

    Uses the operator listener and needs a role token, like `sidecar subagent`.
    """
    from sidecar.cli.subagent import activity, step_target  # noqa: PLC0415  only these commands need gRPC

    raise typer.Exit(activity.end_turn(at(), step_target.StepOptions(turn_id, reason, yes=yes)))
