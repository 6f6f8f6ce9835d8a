"""`sidecar token`: creates an operator's key, and the short-lived role tokens that the key signs."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from sidecar.cli.parameters.plain_values import PlainTyper
from sidecar.core.operators.key_limits import KeyLimits
from sidecar.core.operators.role_tokens import RoleClaims, seal
from sidecar.core.roles import Role

if TYPE_CHECKING:
    from sidecar.operations.record.checkpoint_ports import CheckpointSigner

EX_USAGE: Final = 64
EX_CONFIG: Final = 78
LENGTH: Final = re.compile(r"([1-9][0-9]{0,4})(s|m|h)\Z")
"""A lifetime. The longest, an hour, is checked by `RoleClaims`, as for every token."""
UNITS: Final = {"s": 1, "m": 60, "h": 3600}
"""Seconds of each unit."""


class KeyUnusable(Exception):
    """The key cannot be read or created, or its settings cannot be read. The message contains no part of a key."""


class TokenTools(NamedTuple):
    """The operations that the commands call.

    Attributes:
        signer: opens a private key. If there is none and the second argument is true, it creates one, with the public
            key beside it. Raises `KeyUnusable`. The interface is that of signers of checkpoints; the keys differ.
        now: the wall clock.
        new_id: returns a unique id for a token.
        limits: returns for which roles and subjects a sidecar with the settings in this file accepts the key with this
            id; None: the settings do not name the key. Raises `KeyUnusable`, if the settings cannot be read.
    """

    signer: Callable[[Path, bool], "CheckpointSigner"]
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    limits: Callable[[Path, str], KeyLimits | None]


Config = Annotated[
    Path | None,
    typer.Option("--config", help="Settings of the sidecar, to check that it would accept the token."),
]
Key = Annotated[Path, typer.Option("--key", help="File with the private key (Ed25519, PEM); the operator's own.")]


def add_token(app: typer.Typer, tools_of: Callable[[], TokenTools]) -> None:
    """Add the commands. `tools_of` is called only when one runs, because it imports the signing of keys."""
    group = PlainTyper(no_args_is_help=True, help="Create keys and role tokens for operators.")
    app.add_typer(group, name="token")

    @group.command()
    def key(file: Key) -> None:
        """Create a key, unless it exists; print its id. The public key is written beside it, for `operators.keys`.

        Exit codes: 0 done, 78 the key cannot be created or read.
        """
        typer.echo(_signer(tools_of(), file, make=True).key_id)

    @group.command()
    def mint(
        file: Key,
        role: Annotated[Role, typer.Option("--role", help="Role of the token.")],
        subject: Annotated[str, typer.Option("--subject", help="Name of the operator, for the audit.")],
        deployment: Annotated[str, typer.Option("--deployment", help="`operators.deployment` of the sidecars.")],
        length: Annotated[str, typer.Option("--for", help="Lifetime, e.g. 90s, 15m; at most 1h.")] = "15m",
        config: Config = None,
    ) -> None:
        """Print a role token for metadata `x-subagents-role-token`.

        Exit codes: 0 done, 64 the options are not valid together, 78 the key or the settings cannot be read.
        """
        tools = tools_of()
        signer = _signer(tools, file, make=False)  # a new key would be unknown to every sidecar
        # Before the token is printed: a token that every sidecar refuses helps no operator.
        if config is not None:
            _refuse_beyond_limits(tools, config, signer.key_id, role, subject)
        # `nbf` and `exp` are seconds. Rounded down, so that the token is valid at once.
        begins = int(tools.now().timestamp())
        try:
            claims = RoleClaims(
                kid=signer.key_id,
                aud=deployment,
                sub=subject,
                role=role,
                nbf=begins,
                exp=begins + int(_length(length).total_seconds()),
                # Identifies the token in the audit.
                jti=tools.new_id(),
            )
            token = seal(claims, signer.sign)
        # `RoleClaims` and `_length` raise it, e.g. for a subject that is too long or a lifetime of more than an hour.
        except ValueError as problem:
            typer.echo(str(problem), err=True)
            raise typer.Exit(EX_USAGE) from None
        typer.echo(token)


def _signer(tools: TokenTools, file: Path, *, make: bool) -> "CheckpointSigner":
    """Open the key in `file`, or end the command. `make`: create the key if there is none."""
    try:
        return tools.signer(file, make)
    except KeyUnusable as problem:
        typer.echo(str(problem), err=True)
        raise typer.Exit(EX_CONFIG) from None


def _refuse_beyond_limits(tools: TokenTools, config: Path, key_id: str, role: Role, subject: str) -> None:
    """End the command if the settings do not name the key, or do not allow it to sign for this role and subject."""
    try:
        limits = tools.limits(config, key_id)
    except KeyUnusable as problem:
        typer.echo(str(problem), err=True)
        raise typer.Exit(EX_CONFIG) from None
    if limits is None:
        typer.echo(f"{config} does not name the key {key_id} (operators.keys, operators.key.<name>)", err=True)
    elif not limits.allow(role, subject):
        typer.echo(f"{limits.described()} ({config}), not for {role} as {subject}", err=True)
    else:
        return
    raise typer.Exit(EX_USAGE)


def _length(text: str) -> timedelta:
    """Return the lifetime of a token. Raises `ValueError` for any other text."""
    match = LENGTH.match(text)
    if match is None:
        raise ValueError(f"--for {text[:20]!r} is not a duration; write e.g. 90s, 15m or 1h")
    return timedelta(seconds=int(match[1]) * UNITS[match[2]])
