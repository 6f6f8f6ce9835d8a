"""`sidecar completion`: prints the script with which a shell completes commands and options. Typer provides it."""

from enum import StrEnum, unique
from typing import Annotated, Final

import typer

VARIABLE: Final = "_SIDECAR_COMPLETE"
"""The variable with which a shell requests completions."""
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
    """Let Typer answer requests for completions; by default it does so only with its own options."""
    from typer.completion import completion_init  # type: ignore[attr-defined]  # noqa: PLC0415  it has no public name

    # It registers the classes that answer; Typer itself then reads the variable when the command line is called.
    completion_init()


def _completion(shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print the script with which a shell completes commands and options.

    bash and zsh: source <(sidecar completion bash). fish: sidecar completion fish | source
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # noqa: PLC0415  only on demand

    typer.echo(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value))
