"""`sidecar subagent new`: the command. Further imports wait until it runs."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from sidecar.core.definitions.resolve import LoadedCatalogue

EX_USAGE: Final = 64
NEXT: Final = """
A running `sidecar dev` starts the new host and restarts the sidecar. Without it, start the host with
`python {module}_agent.py` and restart the sidecar, which reads the addresses of hosts only when it starts.
The sub-agent serves no user before a promotion."""


def add_new(group: typer.Typer, load: "Callable[[Path, int], LoadedCatalogue]") -> None:
    """Add the command `subagent new`.

    Args:
        group: of the commands about sub-agents.
        load: reads the definitions below a folder.
    """

    @group.command(name="new")
    def new(
        name: Annotated[str, typer.Argument(help="Id of the new sub-agent, e.g. weather.")],
        folder: Annotated[Path, typer.Option("--dir", help="The folder that `sidecar init` wrote.")] = Path(),
        orchestrator: Annotated[
            str, typer.Option("--orchestrator", help="The agent that may call it. Default: the only orchestrator.")
        ] = "",
    ) -> None:
        """Add another sub-agent to a folder that `sidecar init` wrote.

        Written: prompt blocks, runner host, test. Changed: agent_config.yaml, sidecar.toml, the cases in evals.

        The sub-agent begins in `dev`; it serves users after a promotion.

        Example: `sidecar subagent new weather`.

        Exit codes: 0 added; 64 not added: nothing was changed.
        """
        from sidecar.cli.init.another import add_sub_agent  # noqa: PLC0415  not for `--help`
        from sidecar.cli.scaffolding.project_files import ScaffoldError  # noqa: PLC0415  not for `--help`
        from sidecar.core.definitions.cards.card import SUB_AGENTS_AT_MOST  # noqa: PLC0415  not for `--help`

        try:
            added = add_sub_agent(name, folder, orchestrator, lambda config: load(config, SUB_AGENTS_AT_MOST))
        except ScaffoldError as problem:
            typer.echo(str(problem), err=True)
            raise typer.Exit(EX_USAGE) from None
        for word, paths in (("written", added.written), ("changed", added.changed)):
            for path in paths:
                typer.echo(f"{word}: {path}")
        typer.echo(NEXT.format(module=name.replace("-", "_")))
