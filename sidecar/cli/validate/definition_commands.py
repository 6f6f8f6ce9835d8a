"""Declares `sidecar validate` and `sidecar codeowners`, which read a folder of definitions.

Reading definitions needs many modules, so they are imported inside the commands: other commands start without them.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sidecar.core.definitions.resolve import LoadedCatalogue
    from sidecar.settings import Settings

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def add_definition_commands(
    app: typer.Typer,
    settings_of: "Callable[[Path | None], Settings]",
    load: "Callable[[Path, int], LoadedCatalogue]",
) -> None:
    """Add the commands.

    Args:
        app: the command line.
        settings_of: reads a settings file; if it is invalid, ends the command.
        load: reads and checks the definitions in a folder; the number is the most sub-agents that an agent may have.
    """

    @app.command(name="validate")
    def check(
        folder: Annotated[Path, typer.Argument(help="The folder that contains agent_config.yaml.")],
        as_json_text: AsJson = False,
        costs: Annotated[bool, typer.Option("--costs", help="Also print the minimum cost of a turn.")] = False,
        strict: Annotated[bool, typer.Option("--strict", help="Also fail on warnings and advice.")] = False,
        config: Annotated[
            Path | None,
            typer.Option("--config", "-c", help="Settings to check against the definitions."),
        ] = None,
    ) -> None:
        """Check agent definitions as the sidecar does, and give advice. Needs no running sidecar."""
        from sidecar.cli.validate.command import ValidateOptions, validate  # noqa: PLC0415  only this command needs it
        from sidecar.core.definitions.cards.card import SUB_AGENTS_AT_MOST  # noqa: PLC0415  only this command

        settings = None if config is None else settings_of(config)
        options = ValidateOptions(as_json_text, costs, strict, settings)
        # The limit is a setting of the sidecar; without settings, its default holds.
        most = SUB_AGENTS_AT_MOST if settings is None else settings.definitions.max_sub_agents
        raise typer.Exit(validate(folder, options, lambda root: load(root, most), sys.stdout))

    @app.command(name="codeowners")
    def reviewers(
        folder: Annotated[Path, typer.Argument(help="The folder that contains agent_config.yaml.")],
        team: Annotated[str, typer.Option(help="Template of an owner's name; contains {owner}.")] = "@{owner}",
        under: Annotated[str, typer.Option(help="Path of the folder in the repository.")] = "",
        check: Annotated[Path | None, typer.Option(help="Compare with this file instead of printing.")] = None,
    ) -> None:
        """Print a CODEOWNERS file, made from the owners of the prompt blocks."""
        from sidecar.cli.validate.codeowners import CodeownersOptions, codeowners  # noqa: PLC0415  only this command
        from sidecar.core.definitions.cards.card import SUB_AGENTS_AT_MOST  # noqa: PLC0415  only this command

        # The default limit: the owners of prompt blocks do not depend on it.
        options = CodeownersOptions(team, under, check)
        raise typer.Exit(codeowners(folder, options, lambda root: load(root, SUB_AGENTS_AT_MOST), sys.stdout))
