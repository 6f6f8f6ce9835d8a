"""`sidecar subagent decommission`: its commands. What they need beside this is imported when one of them runs."""

from collections.abc import Callable
from enum import StrEnum, unique
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, NamedTuple

import typer

from sidecar.cli.parameters.plain_values import PlainTyper
from sidecar.cli.record.turn_commands import given_by
from sidecar.cli.subagent.options import EXIT_CODES, Name, Open, Placed
from sidecar.cli.subagent.step_commands import WishOf
from sidecar.cli.validate.checkouts import Checkouts
from sidecar.core.rollout.checkout_inspection import MODULES
from sidecar.core.rollout.decommission_facts import Choice, CodeStatus

HELP: Final = """Take a definition that is in rollback away for good, in five steps.

\b
1 entry            its entry is marked `status: deprecated`, or removed
2 references       it is taken off every `sub_agents`
3 modules          its Python modules are deleted, or marked deprecated
4 blocks           its entry goes, and prompt blocks that only it used
5 evals and tools  retained or removed, as was decided of each

`begin` starts the window (a quarter, unless set otherwise). `patch` writes the change that the next step needs, for \
review; it never changes the checkout. Once that is merged and loaded, `step` puts the step on record: the sidecar \
checks what it can see, and for modules and evals `--checkout DIR` looks there. `decide` records what becomes of evals \
and of tools. `undo` is possible until code is deleted. `overdue` fails if a window has passed; let it run in CI.
"""


@unique
class Subject(StrEnum):
    """What is decided about."""

    EVALS = "evals"
    TOOLS = "tools"


CheckoutDir = Annotated[
    Path | None, typer.Option("--checkout", help="Folder with agent_config.yaml, in a checkout of its repository.")
]
Modules = Annotated[str, typer.Option("--modules", help="Where modules are, from the top of the checkout.")]
Record = Annotated[
    Path | None, typer.Option("--record", help="What `status NAME --json` printed, instead of asking a sidecar.")
]
DeprecateModules = Annotated[
    bool, typer.Option("--deprecate-modules", help="Step 3 marks modules deprecated, for a while, and deletes none.")
]

Confirm = Annotated[
    str, typer.Option("--confirm", help="Steps 3 and 5: what you checked; --checkout is looked at even so.")
]
Through = Annotated[int, typer.Option("--through", min=0, max=5, help="Up to this step; else the next only.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Write to this file instead of printing.")]
Remove = Annotated[bool, typer.Option("--remove-entry", help="Step 1 removes the entry instead of marking it.")]

MakePlace = Callable[..., Any]


class Completion(NamedTuple):
    """What became of the code, and what the operator confirms in words."""

    code: CodeStatus
    word: str


def add_decommission(group: typer.Typer, placed: Placed, asked: Placed, checkouts: Callable[[], Checkouts]) -> None:
    """Add the commands.

    Args:
        group: `sidecar subagent`.
        placed: gives a command the options that say where the sidecar is.
        asked: gives it those that every step has.
        checkouts: reads checkouts of the configuration repository.
    """
    app = PlainTyper(no_args_is_help=True, help=HELP, epilog=EXIT_CODES)
    group.add_typer(app, name="decommission")

    def place(checkout: CheckoutDir = None, modules: Modules = MODULES) -> Any:
        return lambda record=None: _cleanup().CheckoutLocation(checkouts(), checkout, modules, record)

    def done(confirm: Confirm = "", deprecate_modules: DeprecateModules = False) -> Completion:
        return Completion(CodeStatus.DEPRECATED if deprecate_modules else CodeStatus.GONE, confirm)

    def patching(
        through: Through = 0, out: Out = None, deprecate_modules: DeprecateModules = False, remove_entry: Remove = False
    ) -> Any:
        code = CodeStatus.DEPRECATED if deprecate_modules else CodeStatus.GONE
        return lambda name: _cleanup().PatchWish(name, through, code, remove_entry, out)

    looked = given_by(place, "look_at")
    commands: dict[str, Callable[..., None]] = {
        "begin": asked(_begin),
        "status": _status,
        "list": _list,
        "patch": given_by(patching, "wanted")(looked(_patch)),
        "step": given_by(done, "how")(asked(looked(_step))),
        "decide": asked(_decide),
        "undo": asked(_undo),
        "overdue": looked(_overdue),
    }
    for name, command in commands.items():
        app.command(name=name, epilog=EXIT_CODES)(placed(command))


def _begin(at: Open, wish_of: WishOf, name: Name) -> None:
    """Begin: the window runs from now. Asks for confirmation."""
    raise typer.Exit(_work().begin(at(), wish_of(name)))


def _decide(
    at: Open,
    wish_of: WishOf,
    name: Name,
    matter: Annotated[Subject, typer.Argument(help="What is decided about.")],
    choice: Annotated[Choice, typer.Argument(help="What becomes of it.")],
) -> None:
    """Decide what becomes of the eval suite, or of the tools that only it used: each by itself, anew until step 5."""
    raise typer.Exit(_work().decide(at(), wish_of(name), matter.value, choice))


def _undo(at: Open, wish_of: WishOf, name: Name) -> None:
    """Take a decommission back, as long as no code is deleted. Asks for confirmation."""
    raise typer.Exit(_work().undo(at(), wish_of(name)))


def _step(
    at: Open,
    wish_of: WishOf,
    look_at: MakePlace,
    how: Completion,
    name: Name,
    number: Annotated[int, typer.Argument(min=0, max=5, help="Which step; else the next.")] = 0,
) -> None:
    """Put a step on record that is done in the configuration repository. Step 3 asks for confirmation."""
    raise typer.Exit(_work().step(at(), wish_of(name), look_at(), number, how.code, how.word))


def _patch(at: Open, look_at: MakePlace, wanted: MakePlace, name: Name, record: Record = None) -> None:
    """Write the change that the next step needs as a diff for `git apply`. The checkout is only read.

    Steps 1 and 2 come together: checks before a merge let no entry go that somebody still names.
    """
    opened = at(offline=record is not None)
    raise typer.Exit(_cleanup().patch(opened, wanted(name), look_at(record)))


def _overdue(at: Open, look_at: MakePlace, record: Record = None) -> None:
    """Name what has outlived its window, and with --checkout what is left there, also of what ended. Fails if any."""
    raise typer.Exit(_cleanup().overdue(at(offline=record is not None), look_at(record)))


def _list(
    at: Open, finished: Annotated[bool, typer.Option("--all", help="Those that have ended, too.")] = False
) -> None:
    """List decommissions: how far they are, when they are due, what is left."""
    raise typer.Exit(_work().show_all(at(), finished=finished))


def _status(at: Open, name: Name) -> None:
    """Show one decommission: who did what, what is left, what to do next."""
    raise typer.Exit(_work().show_one(at(), name))


def _work() -> ModuleType:
    from sidecar.cli.subagent import decommission  # noqa: PLC0415  only these commands need gRPC

    return decommission


def _cleanup() -> ModuleType:
    from sidecar.cli.subagent import cleanup  # noqa: PLC0415  only these commands need gRPC

    return cleanup
