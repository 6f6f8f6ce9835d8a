"""Declares `sidecar validate-refs`, which checks a change of the definitions in CI (`validate_refs.py`)."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sidecar.cli.validate.validate_refs import Compare, Format, ValidateRefsOptions, validate_refs
from sidecar.core.definitions.review.references import BaseSelection, Check

Base = Annotated[str | None, typer.Option("--base", help="Branch or commit that the change will be merged into.")]
BaseDir = Annotated[Path | None, typer.Option("--base-dir", help="Folder with the previous state, instead of git.")]
Export = Annotated[Path | None, typer.Option(help="Output of `sidecar subagent list --json`, for rollbacks.")]
Skip = Annotated[list[Check] | None, typer.Option("--skip", help="Disable a check; repeatable.")]
Shape = Annotated[Format, typer.Option("--format", help="Format of the findings.")]


def add_validate_refs(app: typer.Typer, compare: Compare) -> None:
    """Add the command; `compare` reads both states."""

    @app.command(name="validate-refs")
    def check(
        root: Annotated[Path, typer.Argument(help="The folder that contains agent_config.yaml.")] = Path(),
        base: Base = None,
        base_dir: BaseDir = None,
        rollout_export: Export = None,
        skip: Skip = None,
        shape: Shape = Format.HUMAN,
    ) -> None:
        """Check a change of the configuration before it is merged.

        a: it loads. b: each sub_agents entry can be served. c: no entry references a removed one. d: no major change in
        place, and minor ones only with an override. Exit codes: 0 passed, 1 a check failed, 2 could not be compared.
        """
        selection = BaseSelection(base, None if base_dir is None else str(base_dir))
        options = ValidateRefsOptions(selection, rollout_export, frozenset(skip or ()), shape)
        raise typer.Exit(validate_refs(root, options, compare, sys.stdout, sys.stderr))
