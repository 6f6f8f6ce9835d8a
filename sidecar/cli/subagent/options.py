"""Arguments and options that all `sidecar subagent` commands share, and how they end where they are not understood."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

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
    typer.Option(
        "--target",
        help="Its operator listener instead, e.g. unix:/run/sidecar/operators/sidecar.sock; for kill, several. "
        "Without both options SIDECAR_TARGET names it.",
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", help="File with the role token; else SIDECAR_ROLE_TOKEN holds it.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Name = Annotated[str, typer.Argument(help="Id of the sub-agent's definition.")]
Slot = Annotated[str, typer.Argument(help="A slot, or the id of a definition in it.")]
Digest = Annotated[str, typer.Option("--digest", help="Which digest of it; else the active one, else the newest.")]

Open = Callable[..., Any]
"""Returns an `Operating`: which sidecars, and where to print. Reads the settings if it has to; not with `offline`."""
Placed = Callable[[Callable[..., None]], Callable[..., None]]


def understood(read: Callable[[str], ValueT], text: str) -> ValueT:
    """Return what somebody wrote, or end the command."""
    try:
        return read(text)
    except ValueError as problem:
        typer.echo(str(problem), err=True)
        raise typer.Exit(EX_USAGE) from None
