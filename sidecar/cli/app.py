"""Builds the command line. Its operations are passed in, so that importing this module loads nothing heavy.

Only the group of the requested command is imported; without one, e.g. for `--help`, all groups are.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sidecar.cli.parameters.plain_values import PlainTyper, only_requested
from sidecar.cli.serve import EX_CONFIG, refusal

if TYPE_CHECKING:
    from sidecar.cli.doctor_command import Examine
    from sidecar.cli.gate_command import GateTools
    from sidecar.cli.plugins.command import PluginTools
    from sidecar.cli.record.backup import BackUp, Migrate
    from sidecar.cli.record.history_commands import OpenEpisodeMemory
    from sidecar.cli.record.projection_command import Rebuild
    from sidecar.cli.record.replay_command import Replay
    from sidecar.cli.record.restored_command import DeclareLoss
    from sidecar.cli.record.verify_command import VerifyLog
    from sidecar.cli.subagent.command import FromEnvironment
    from sidecar.cli.token_command import TokenTools
    from sidecar.cli.validate.checkouts import Checkouts
    from sidecar.cli.validate.validate_refs import Compare
    from sidecar.core.definitions.resolve import LoadedCatalogue
    from sidecar.operations.record.erase_user import ErasureReport
    from sidecar.settings import Settings

Config = Annotated[Path | None, typer.Option("--config", "-c", help="The settings file, TOML. Variables override it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@dataclass(frozen=True, slots=True)
class Commands:
    """The operations that the commands call.

    Attributes:
        read_settings: reads the settings from a file and the environment; raises `SettingsProblem`.
        serve: runs the sidecar; returns its exit code.
        load: reads the definitions below a folder; the number is the most sub-agents that an agent may have.
        plugin_tools: the operations of `plugins`.
        replay: replays a turn; returns the exit code.
        verify_log: the operations of `verify-log`.
        open_memory: opens the episode memory that the settings choose.
        migrate: brings the schema of the record up to date.
        back_up: copies the record.
        declare_loss: declares facts as lost, because the record was restored from an older backup.
        rebuild_projection: rebuilds the rows of lists.
        compare: reads a configuration and the base that it is compared with.
        token_tools: the operations of `token`.
        environment: the defaults of `subagent` from the environment.
        checkouts: reads checkouts of the repository with the definitions.
        erase_offline: erases the content of a user in a record that no sidecar has open.
        examine: returns the checks of `doctor`.
        gate_tools: the operations of `gate`.
        requested: the name of the command that was typed, below `subagent` if it is one of these.
    """

    read_settings: Callable[[Path | None], "Settings"]
    serve: Callable[["Settings"], int]
    load: Callable[[Path, int], "LoadedCatalogue"]
    plugin_tools: Callable[[], "PluginTools"]
    replay: "Replay"
    verify_log: Callable[[], "VerifyLog"]
    open_memory: "OpenEpisodeMemory"
    migrate: "Migrate"
    back_up: "BackUp"
    declare_loss: "DeclareLoss"
    rebuild_projection: "Rebuild"
    compare: "Compare"
    token_tools: Callable[[], "TokenTools"]
    environment: Callable[[], "FromEnvironment"]
    checkouts: Callable[[], "Checkouts"]
    erase_offline: Callable[..., "ErasureReport"]
    examine: Callable[[], "Examine"]
    gate_tools: Callable[[], "GateTools"]
    requested: str = ""


def make_app(commands: Commands, words: Sequence[str] = ()) -> typer.Typer:
    """Return the command line.

    Args:
        commands: the operations that the commands call.
        words: the arguments; if they begin with the name of a command, only that command is added.
    """
    # Filled up, so that there are always two words.
    first, second = (*words, "", "")[:2]
    if words:
        commands = replace(commands, requested=second if first == "subagent" else first)
    app = PlainTyper(
        no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="The dispatch sidecar."
    )
    app.callback()(_about)
    # An unknown word may be a command of another package; then all groups are needed to print its error or its help.
    add_all = first != "--version" and not any(first in names for names in GROUPS)
    for names, add in GROUPS.items():
        if add_all or first in names:
            add(app, commands)
    if add_all:
        from sidecar.cli.installed_commands import add_installed_commands  # noqa: PLC0415  own commands come first

        add_installed_commands(app)
    return only_requested(app, words)


def _about(
    shown: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=lambda wanted: _show_version(wanted=wanted))
    ] = False,
) -> None:
    """Everything between a model's `ask_<id>` tool call and its result."""


def _show_version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415  only `--version` needs it

        typer.echo(f"sidecar {version('dispatch-sidecar')}")
        raise typer.Exit


def _add_serving(app: typer.Typer, commands: Commands) -> None:
    @app.command(name="serve")
    def serve(config: Config = None) -> None:
        """Serve until SIGTERM or SIGINT, then drain.

        Exit codes: 0 stopped, 69 another process holds an address or the SQLite record, 70 a defect, 78 wrong settings.
        """
        raise typer.Exit(commands.serve(_settings(commands, config)))

    @app.command(name="health")
    def ask_health(config: Config = None) -> None:
        """Ask the running sidecar whether it accepts turns."""
        from sidecar.cli.health import PATIENCE, health  # noqa: PLC0415  only this command needs it

        raise typer.Exit(health(_settings(commands, config).server.ops_address, PATIENCE, sys.stdout))


def _add_validate(app: typer.Typer, commands: Commands) -> None:
    from sidecar.cli.validate.definition_commands import add_definition_commands  # noqa: PLC0415  for its own command only

    add_definition_commands(app, lambda config: _settings(commands, config), commands.load)


def _add_completion(app: typer.Typer, _commands: Commands) -> None:
    from sidecar.cli.completion import add_completion  # noqa: PLC0415  loaded for its own command only

    add_completion(app)


def _add_init(app: typer.Typer, _commands: Commands) -> None:
    from sidecar.cli.init.command import add_init  # noqa: PLC0415  loaded for its own command only

    add_init(app)


def _add_dev(app: typer.Typer, commands: Commands) -> None:
    from sidecar.cli.dev.command import add_dev  # noqa: PLC0415  loaded for its own command only

    add_dev(app, lambda config: _settings(commands, config), lambda key: commands.token_tools().signer(key, True))


def _add_doctor(app: typer.Typer, commands: Commands) -> None:
    from sidecar.cli.doctor_command import add_doctor  # noqa: PLC0415  loaded for its own command only

    add_doctor(app, lambda config: _settings(commands, config), commands.examine)


def _add_gate(app: typer.Typer, commands: Commands) -> None:
    from sidecar.cli.gate_command import add_gate  # noqa: PLC0415  loaded for its own command only

    add_gate(app, lambda config: _settings(commands, config), commands.gate_tools)


def _add_plugins(app: typer.Typer, commands: Commands) -> None:
    from sidecar.cli.plugins.command import add_plugins  # noqa: PLC0415  loaded for its own commands only

    add_plugins(app, lambda config: _settings(commands, config), commands.plugin_tools())


def _add_validate_refs(app: typer.Typer, commands: Commands) -> None:
    from sidecar.cli.validate.validate_refs_command import add_validate_refs  # noqa: PLC0415  for its own command only

    add_validate_refs(app, commands.compare)


def _add_token(app: typer.Typer, commands: Commands) -> None:
    from sidecar.cli.token_command import add_token  # noqa: PLC0415  for its own command only

    add_token(app, commands.token_tools)


def _add_subagent(app: typer.Typer, commands: Commands) -> None:
    from sidecar.cli.subagent.command import add_subagent, names_in  # noqa: PLC0415  for its own command only

    group = add_subagent(
        app,
        lambda config: _settings(commands, config),
        commands.environment(),
        commands.checkouts,
        commands.erase_offline,
        commands.requested,
    )
    # Any other command of the group is in it by now, and needs no import of `new`.
    if commands.requested not in names_in(group, app):
        from sidecar.cli.init.new_command import add_new  # noqa: PLC0415  for its own command only

        add_new(group, commands.load)


def _add_evaluation(app: typer.Typer, commands: Commands) -> None:
    from sidecar.cli.evaluation.commands import add_evaluation  # noqa: PLC0415  for its own command only

    add_evaluation(app, lambda config: _settings(commands, config), commands.environment())


def _add_console(app: typer.Typer, commands: Commands) -> None:
    from sidecar.cli.console_command import add_console  # noqa: PLC0415  for its own command only

    add_console(app, lambda config: _settings(commands, config), commands.environment())


def _add_verify_log(app: typer.Typer, commands: Commands) -> None:
    from sidecar.cli.record.verify_command import add_verify_log  # noqa: PLC0415  for its own command only

    add_verify_log(app, commands.verify_log())


def _add_turns(app: typer.Typer, commands: Commands) -> None:
    from sidecar.cli.record.turn_commands import add_record_commands  # noqa: PLC0415  for its own command only

    add_record_commands(app, lambda config: _settings(commands, config))


def _add_history(app: typer.Typer, commands: Commands) -> None:
    from sidecar.cli.record.history_commands import add_history_commands  # noqa: PLC0415  for its own command only

    add_history_commands(app, lambda config: _settings(commands, config), commands.open_memory)


def _add_record_files(app: typer.Typer, commands: Commands) -> None:
    from sidecar.cli.record.backup import add_backup, add_migrate  # noqa: PLC0415  for its own command only
    from sidecar.cli.record.projection_command import add_projection  # noqa: PLC0415  for its own command only

    add_migrate(app, lambda config: _settings(commands, config), commands.migrate)
    add_backup(app, lambda config: _settings(commands, config), commands.back_up)
    add_projection(app, lambda config: _settings(commands, config), commands.rebuild_projection)


def _add_restored(app: typer.Typer, commands: Commands) -> None:
    from sidecar.cli.record.restored_command import add_restored  # noqa: PLC0415  for its own command only

    add_restored(app, lambda config: _settings(commands, config), commands.declare_loss)


def _add_replay(app: typer.Typer, commands: Commands) -> None:
    from sidecar.cli.record.replay_command import add_replay  # noqa: PLC0415  for its own command only

    add_replay(app, lambda config: _settings(commands, config), commands.replay)


GROUPS: Final[Mapping[tuple[str, ...], Callable[[typer.Typer, Commands], None]]] = {
    ("serve", "health"): _add_serving,
    ("validate", "codeowners"): _add_validate,
    ("init",): _add_init,
    ("dev",): _add_dev,
    ("doctor",): _add_doctor,
    ("plugins",): _add_plugins,
    ("gate",): _add_gate,
    ("validate-refs",): _add_validate_refs,
    ("token",): _add_token,
    ("subagent", "status", "drain", "end-turn", "erase"): _add_subagent,
    ("score", "ramp-watchdog"): _add_evaluation,
    ("console",): _add_console,
    ("verify-log",): _add_verify_log,
    ("turns", "turn", "episodes"): _add_turns,
    ("history",): _add_history,
    ("migrate", "backup", "projection"): _add_record_files,
    ("restored",): _add_restored,
    ("replay",): _add_replay,
    ("completion",): _add_completion,
}
"""The commands of each group, in the order in which `--help` shows them."""


def _settings(commands: Commands, config: Path | None) -> "Settings":
    from sidecar.settings.problems import SettingsProblem  # noqa: PLC0415  an operator's command may read no settings

    try:
        return commands.read_settings(config)
    except SettingsProblem as problem:
        typer.echo(refusal(problem), err=True)
        raise typer.Exit(EX_CONFIG) from None
