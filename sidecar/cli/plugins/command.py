"""Declares the commands of `sidecar plugins`: `list`, `doctor` and `new`.

What implements a command is imported inside the command, so that other commands start without it.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from sidecar.cli.parameters.plain_values import PlainTyper
from sidecar.cli.plugins import SECONDS
from sidecar.policy.kinds import PluginKind
from sidecar.policy.problems import EX_CONFIG, PluginProblem

if TYPE_CHECKING:
    from sidecar.policy.entry_points import PluginSelection
    from sidecar.policy.selection import PolicySettings
    from sidecar.settings import Settings

Config = Annotated[Path | None, typer.Option("--config", "-c", help="The settings file, TOML. Variables override it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
EX_USAGE: Final = 64
SettingsOf = Callable[[Path], "Settings"]
"""Reads a settings file; if it is invalid, prints the problems and ends the command."""


class PluginTools(NamedTuple):
    """The operations that the commands call.

    Attributes:
        built_ins: returns the plugins that come with the sidecar.
        policy: returns which plugins the settings select for each purpose; for None the defaults.
        sections: returns the settings of plugins' objects, by kind of plugin and name of the object.
    """

    built_ins: Callable[[], Sequence[object]]
    policy: Callable[["Settings | None"], "PolicySettings"]
    sections: Callable[["Settings"], Mapping[PluginKind, Mapping[str, Any]]]


def add_plugins(app: typer.Typer, settings_of: SettingsOf, tools: PluginTools) -> None:
    """Add the commands to the command line `app`."""
    plugins = PlainTyper(no_args_is_help=True, help="List, examine and create plugins.")
    app.add_typer(plugins, name="plugins")

    @plugins.callback()
    def _plugins() -> None:
        """List, examine and create plugins."""

    @plugins.command(name="list")
    def list_plugins(config: Config = None, as_json_text: AsJson = False) -> None:
        """List built-in and installed plugins, with the problems of broken ones. Exit code 1 if one is broken."""
        from sidecar.cli.plugins.listing import as_json, as_table, exit_code_of, plugin_rows  # noqa: PLC0415  only this command needs it

        settings = None if config is None else settings_of(config)
        try:
            sections = tools.sections(settings) if settings else {}
            rows = plugin_rows(tools.built_ins(), _selection(settings), tools.policy(settings), sections)
        # `plugins.enabled` names a plugin that is not installed, so the settings are wrong. A broken plugin is only a
        # row.
        except PluginProblem as problem:
            typer.echo(str(problem), err=True)
            raise typer.Exit(EX_CONFIG) from None
        typer.echo(as_json(rows) if as_json_text else as_table(rows), nl=False)
        raise typer.Exit(exit_code_of(rows))

    @plugins.command()
    def doctor(
        config: Config = None,
        as_json_text: AsJson = False,
        seconds: Annotated[
            float, typer.Option("--timeout", min=0.1, max=600, help="Time limit per plugin, in seconds.")
        ] = SECONDS,
    ) -> None:
        """Examine each installed plugin, enabled or not, in a separate process, with its settings.

        Exit codes: 0 no problem; 1 a plugin has a problem; 78 invalid settings.
        """
        from sidecar.cli.plugins import doctor as plugin_doctor  # noqa: PLC0415  only this command needs it

        settings = None if config is None else settings_of(config)
        sections = tools.sections(settings) if settings else {}
        findings = plugin_doctor.findings(_selection(settings), sections, seconds)
        typer.echo(plugin_doctor.as_json(findings) if as_json_text else plugin_doctor.as_table(findings), nl=False)
        raise typer.Exit(plugin_doctor.exit_code_of(findings))

    _add_new(plugins)


def _add_new(plugins: typer.Typer) -> None:
    """Add `sidecar plugins new`."""

    @plugins.command()
    def new(
        kind: Annotated[PluginKind, typer.Argument(help="Kind of the plugin.")],
        name: Annotated[str, typer.Argument(help="Name of the project and the plugin, e.g. rewards-flags.")],
        folder: Annotated[Path, typer.Option("--dir", help="Parent folder of the project.")] = Path(),
    ) -> None:
        """Write a small, complete plugin: a module, its metadata, a README, and a test with the conformance suite.

        Exit codes: 0 written; 64 the name is invalid, or the folder exists.
        """
        from sidecar.cli.plugins.scaffold import write_scaffold  # noqa: PLC0415  only this command needs it
        from sidecar.cli.scaffolding.project_files import ScaffoldError  # noqa: PLC0415  only this command needs it

        try:
            project = write_scaffold(kind, name, folder)
        except ScaffoldError as problem:
            typer.echo(str(problem), err=True)
            raise typer.Exit(EX_USAGE) from None
        typer.echo(f"written: {project}, a plugin of the kind {kind}, which passes its suite; next: read its README.md")


def _selection(settings: "Settings | None") -> "PluginSelection":
    """Return `plugins.enabled`; without settings no installed plugin is enabled."""
    from sidecar.policy.entry_points import PluginSelection  # noqa: PLC0415  only this command needs it

    return PluginSelection(tuple(settings.plugins.enabled) if settings else ())
