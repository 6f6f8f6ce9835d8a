"""Declares the commands of `sidecar subagent decommission`. gRPC is imported only when one runs."""

from collections.abc import Callable
from enum import StrEnum, unique
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, NamedTuple

import typer

from sidecar.cli.parameters.plain_values import PlainTyper
from sidecar.cli.record.turn_commands import given_by
from sidecar.cli.subagent.options import EXIT_CODES, Name, Open, Placed
from sidecar.cli.subagent.step_commands import OptionsOf
from sidecar.cli.validate.checkouts import Checkouts
from sidecar.core.rollout.checkout_inspection import MODULES
from sidecar.core.rollout.decommission_facts import Choice, CodeStatus

HELP: Final = """Remove a definition that was rolled back, permanently, in five steps.

\b
1 entry            its entry is marked `status: deprecated`, or removed
2 references       it is removed from every `sub_agents` list
3 modules          its Python modules are deleted, or marked deprecated
4 blocks           its entry is removed, with the prompt blocks that only it used
5 evals and tools  retained or removed, as decided for each

`begin` starts the window (default: a quarter). `patch` writes the change that the next step needs, for review; it \
never modifies the checkout. Once the change is merged and loaded, `step` records the step: the sidecar verifies what \
it can, and `--checkout DIR` verifies modules and evals. `decide` records whether evals and tools are retained. `undo` \
is possible until code is deleted. `overdue` fails if a window has passed; run it in CI.
"""


@unique
class Subject(StrEnum):
    """The subject of a decision."""

    EVALS = "evals"
    TOOLS = "tools"


CheckoutDir = Annotated[
    Path | None, typer.Option("--checkout", help="Folder with agent_config.yaml, in a checkout of its repository.")
]
Modules = Annotated[str, typer.Option("--modules", help="Folder of the modules, relative to the top of the checkout.")]
Record = Annotated[
    Path | None, typer.Option("--record", help="Output of `status NAME --json`, instead of a running sidecar.")
]
DeprecateModules = Annotated[
    bool,
    typer.Option("--deprecate-modules", help="Step 3 marks modules as deprecated for now instead of deleting them."),
]

Confirm = Annotated[
    str, typer.Option("--confirm", help="Steps 3 and 5: what you checked. --checkout is inspected nevertheless.")
]
Through = Annotated[
    int,
    typer.Option("--through", min=0, max=5, help="Up to this step. Default: the next step; with step 1 also step 2."),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Write to this file instead of printing.")]
Remove = Annotated[bool, typer.Option("--remove-entry", help="Step 1 removes the entry instead of marking it.")]

MakePlace = Callable[..., Any]
"""Builds an object from the options of a command, once the implementation is imported: a `CheckoutLocation` (from a
file of `--record`, or None), or `PatchOptions` (from the id of the definition)."""


class Completion(NamedTuple):
    """Whether the code was deleted or deprecated, and the operator's confirmation in words."""

    code: CodeStatus
    word: str


def add_decommission(
    group: typer.Typer, placed: Placed, with_step_options: Placed, checkouts: Callable[[], Checkouts]
) -> None:
    """Add the commands.

    Args:
        group: `sidecar subagent`.
        placed: adds the options for the sidecar's address to a command.
        with_step_options: adds the options of every step.
        checkouts: reads checkouts of the configuration repository.
    """
    app = PlainTyper(no_args_is_help=True, help=HELP, epilog=EXIT_CODES)
    group.add_typer(app, name="decommission")

    # The parameters of these three functions are options; `given_by` adds them to the commands below.
    def place(checkout: CheckoutDir = None, modules: Modules = MODULES) -> Any:
        # A function, because the classes come from a module that imports gRPC, and are needed only when the command
        # runs.
        return lambda record=None: _cleanup().CheckoutLocation(checkouts(), checkout, modules, record)

    def completion(confirm: Confirm = "", deprecate_modules: DeprecateModules = False) -> Completion:
        return Completion(CodeStatus.DEPRECATED if deprecate_modules else CodeStatus.GONE, confirm)

    def patch_options(
        through: Through = 0, out: Out = None, deprecate_modules: DeprecateModules = False, remove_entry: Remove = False
    ) -> Any:
        code = CodeStatus.DEPRECATED if deprecate_modules else CodeStatus.GONE
        return lambda name: _cleanup().PatchOptions(name, through, code, remove_entry, out)

    with_checkout = given_by(place, "look_at")
    commands: dict[str, Callable[..., None]] = {
        "begin": with_step_options(_begin),
        "status": _status,
        "list": _list,
        "patch": given_by(patch_options, "options_for")(with_checkout(_patch)),
        "step": given_by(completion, "completion")(with_step_options(with_checkout(_step))),
        "decide": with_step_options(_decide),
        "undo": with_step_options(_undo),
        "overdue": with_checkout(_overdue),
    }
    for name, command in commands.items():
        app.command(name=name, epilog=EXIT_CODES)(placed(command))


def _begin(at: Open, options_of: OptionsOf, name: Name) -> None:
    """Begin the decommission; its window starts now. Asks for confirmation."""
    raise typer.Exit(_work().begin(at(), options_of(name)))


def _decide(
    at: Open,
    options_of: OptionsOf,
    name: Name,
    matter: Annotated[Subject, typer.Argument(help="The subject of the decision.")],
    choice: Annotated[Choice, typer.Argument(help="The decision.")],
) -> None:
    """Decide whether the eval suite, or the tools that only this sub-agent used, are retained."""
    raise typer.Exit(_work().decide(at(), options_of(name), matter.value, choice))


def _undo(at: Open, options_of: OptionsOf, name: Name) -> None:
    """Undo a decommission; possible until code is deleted. Asks for confirmation."""
    raise typer.Exit(_work().undo(at(), options_of(name)))


def _step(
    at: Open,
    options_of: OptionsOf,
    look_at: MakePlace,
    completion: Completion,
    name: Name,
    number: Annotated[int, typer.Argument(min=0, max=5, help="Number of the step. Default: the next.")] = 0,
) -> None:
    """Record a step that is done in the configuration repository. Step 3 asks for confirmation."""
    raise typer.Exit(_work().step(at(), options_of(name), look_at(), number, completion.code, completion.word))


def _patch(at: Open, look_at: MakePlace, options_for: MakePlace, name: Name, record: Record = None) -> None:
    """Write the change that the next step needs as a diff for `git apply`. The checkout is only read.

    Steps 1 and 2 come in one diff: checks before a merge reject the removal of an entry that is still referenced.
    """
    # With --record no sidecar is contacted, so neither an address nor the settings are needed.
    commands = at(offline=record is not None)
    raise typer.Exit(_cleanup().patch(commands, options_for(name), look_at(record)))


def _overdue(at: Open, look_at: MakePlace, record: Record = None) -> None:
    """List overdue decommissions, and with --checkout their remains, also of ended ones. Fails if there are any."""
    raise typer.Exit(_cleanup().overdue(at(offline=record is not None), look_at(record)))


def _list(
    at: Open, finished: Annotated[bool, typer.Option("--all", help="Include ended decommissions.")] = False
) -> None:
    """List decommissions with progress, due date and remains."""
    raise typer.Exit(_work().show_all(at(), finished=finished))


def _status(at: Open, name: Name) -> None:
    """Show one decommission: its steps, its remains and the next action."""
    raise typer.Exit(_work().show_one(at(), name))


def _work() -> ModuleType:
    from sidecar.cli.subagent import decommission  # noqa: PLC0415  only these commands need gRPC

    return decommission


def _cleanup() -> ModuleType:
    from sidecar.cli.subagent import cleanup  # noqa: PLC0415  only these commands need gRPC

    return cleanup
