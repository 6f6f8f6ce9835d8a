"""Arguments, options and exit codes that all `sidecar subagent` commands share."""

from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 refused by rules, gates, policies or a changed revision, or unknown sub-agent; 2 not sent "
    "(no sidecar, no token, wrong role, not confirmed, invalid arguments); 3 partly done: a replica was not reached or "
    "lags, a flag must be switched first, or the step is not recorded yet; 3 also for `list` "
    "and `show` without the store; 78 invalid settings."
)
TURN_EXIT_CODES: Final = (
    "Exit codes: 0 the turn has ended, now or earlier; 1 unknown turn, or refused; 2 not sent (no sidecar, no token, "
    "wrong role, not confirmed, invalid arguments); 78 invalid settings."
)
ERASE_EXIT_CODES: Final = (
    "Exit codes: 0 the content is erased, or --preview; 1 refused: turns are open; 2 not sent (no sidecar, no token, "
    "wrong role, not confirmed, invalid arguments); 3 the episode memory cannot erase; 78 invalid settings."
)
EX_USAGE: Final = 2
NO_PLACE: Final = (
    "name the sidecar's settings file with --config, or its operator socket with --target or in SIDECAR_TARGET"
)
ValueT = TypeVar("ValueT")

Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="The sidecar's settings file, which contains its address.")
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        help="The operator listener, e.g. unix:/run/sidecar/operators/sidecar.sock, instead of --config. `kill` takes "
        "several. Default: SIDECAR_TARGET.",
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", help="File with the role token. Default: SIDECAR_ROLE_TOKEN.")
]
TlsFolder = Annotated[
    Path | None,
    typer.Option(
        "--tls", help="Folder with ca.crt, tls.crt and tls.key, for --target at a TCP address with mutual TLS."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Refresh the output every two seconds.")]
Name = Annotated[str, typer.Argument(help="Id of the sub-agent's definition.")]
Slot = Annotated[str, typer.Argument(help="A slot, or the id of a definition in it.")]
Digest = Annotated[
    str,
    typer.Option(
        "--digest",
        help="Digest of the definition, or its first 8 digits or more (`ramp-down`, `flag ... off`: all). "
        "Default: the active one, else the newest.",
    ),
]

WholeDigest = Annotated[
    str, typer.Option("--digest", help="Whole digest of the definition. Default: the active one, else the newest.")
]


@dataclass(frozen=True, slots=True)
class CredentialFiles:
    """The files with a command's credentials: the role token, and the folder with certificates."""

    token: Path | None
    tls: Path | None


Open = Callable[..., Any]
"""Returns `OperatorCommands`. Reads the settings only if no option gives the address; never with `offline`."""


@dataclass(frozen=True, slots=True)
class ErasePlace:
    """The two ways to erase content.

    Attributes:
        opened: returns the `OperatorCommands` to erase through a sidecar.
        offline: erases in the file of the record; takes `EraseOptions` and `preview`.
    """

    opened: Open
    offline: Callable[..., Any]


Placed = Callable[[Callable[..., None]], Callable[..., None]]
"""A decorator that adds options to a command, here those for the sidecar's address."""


def socket_of(config: Path | None, settings_of: Callable[[Path | None], Any]) -> str:
    """Return the target that the settings name, or end the command.

    Args:
        config: the settings file; None: only environment variables.
        settings_of: reads the settings; if they are invalid, prints the problems and ends the command.
    """
    # Printed last: without a file, the missing address is the operator's mistake, so its message must come first.
    problems = StringIO()
    try:
        with redirect_stderr(problems):
            return f"unix:{settings_of(config).operators.socket}"
    except typer.Exit:
        if config is None:
            typer.echo(NO_PLACE, err=True)
        raise
    finally:
        typer.echo(problems.getvalue(), err=True, nl=False)


def parse_or_exit(read: Callable[[str], ValueT], text: str) -> ValueT:
    """Return the parsed argument, or print the problem and end the command."""
    try:
        return read(text)
    except ValueError as problem:
        typer.echo(str(problem), err=True)
        raise typer.Exit(EX_USAGE) from None


def token_in(file: Path) -> str:
    """Return the role token of a file, or end the command."""
    from sidecar.core.decoding import DecodeError, from_ascii  # noqa: PLC0415  a token of the environment needs none

    try:
        return from_ascii(file.read_bytes())
    except (OSError, DecodeError) as problem:
        # Only the type of the error: its text could contain a part of the token.
        typer.echo(f"the role token cannot be read from {file}: {type(problem).__name__}", err=True)
        raise typer.Exit(EX_USAGE) from None
