"""`sidecar completion`: what makes a shell complete commands and options. Typer has the scripts and the answers."""

from enum import StrEnum, unique
from typing import Annotated, Final

import typer

VARIABLE: Final = "_SIDECAR_COMPLETE"
"""With it, a shell asks for completions."""
PROGRAM: Final = "sidecar"


@unique
class Shell(StrEnum):
    """The shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def add_completion(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="completion")(_completion)


def answer_shells() -> None:
    """Have Typer answer when a shell asks; it does this by itself only for its own options."""
    from typer.completion import completion_init  # type: ignore[attr-defined]  # noqa: PLC0415  it has no public name

    completion_init()


def _completion(shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print what makes a shell complete commands and options.

    bash and zsh: source <(sidecar completion bash). fish: sidecar completion fish | source
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # noqa: PLC0415  the same holds

    typer.echo(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value))
