"""The complete command line: passes the operations to the commands, and ends the process with an exit code.

Modules that only one command needs are imported when that command runs: each command is a process of its own, and the
start is most of its cost.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from sidecar.cli.serve import serve_alone

if TYPE_CHECKING:
    from sidecar.cli.doctor_command import Examine
    from sidecar.cli.gate_command import GateTools
    from sidecar.cli.plugins.command import PluginTools
    from sidecar.cli.record.projection_command import Progress
    from sidecar.cli.record.replay_command import ReplayOptions
    from sidecar.cli.record.restored_command import LossDeclaration
    from sidecar.cli.record.source import RecordSource
    from sidecar.cli.record.verify_command import VerifyLog
    from sidecar.cli.subagent.command import FromEnvironment
    from sidecar.cli.subagent.erasing import EraseOptions
    from sidecar.cli.token_command import TokenTools
    from sidecar.cli.validate.checkouts import Checkouts
    from sidecar.core.definitions.resolve import LoadedCatalogue
    from sidecar.core.definitions.review.references import BaseSelection, Comparison
    from sidecar.operations.history.memory_boundary import BoundedMemory
    from sidecar.operations.record.erase_user import ErasureReport
    from sidecar.policy.kinds import PluginKind
    from sidecar.policy.selection import PolicySettings
    from sidecar.settings import Settings


ASYNCIO_PART: Final = "grpc.aio"
"""The part of gRPC for asyncio. Of the commands, only those that run a server or an event loop need it."""


class DeferredModule(ModuleType):
    """Takes the place of a module until an attribute of it is used; then it loads the module.

    The last step of `import grpc` imports `grpc.aio`. This takes a tenth of a command's time, and few commands use it.
    """

    def __getattr__(self, name: str) -> Any:
        """Load the module, and return the attribute."""
        # Removed first, because `import_module` would return this object again. Modules that imported this object
        # before the real module was loaded still have it: for them, `import_module` returns the loaded module.
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def main(arguments: Sequence[str]) -> None:
    """Run the command line; does not return."""
    # First: `serve` with its only option does not need Typer, so it does not import it. None: another command.
    code = serve_alone(arguments, _read_settings, _serve, sys.stderr)
    if code is not None:
        sys.exit(code)
    from sidecar.cli.app import Commands, make_app  # noqa: PLC0415  typer, and what it needs

    # In a process that has gRPC already, e.g. a test, the real module must stay.
    if "grpc" not in sys.modules:
        sys.modules[ASYNCIO_PART] = DeferredModule(ASYNCIO_PART)
    commands = Commands(
        read_settings=_read_settings,
        serve=_serve,
        load=_load,
        plugin_tools=_plugin_tools,
        replay=_replay,
        verify_log=_verify_log,
        open_memory=_open_memory,
        migrate=_migrate,
        back_up=_back_up,
        declare_loss=_declare_loss,
        rebuild_projection=_rebuild_projection,
        compare=_compare,
        token_tools=_token_tools,
        environment=_environment,
        checkouts=_checkouts,
        erase_offline=_erase_offline,
        examine=_examine,
        gate_tools=_gate_tools,
    )
    # A shell sets this variable when it requests completions (`completion.py`).
    if os.environ.get("_SIDECAR_COMPLETE"):
        from sidecar.cli.completion import answer_shells  # noqa: PLC0415  only a shell that completes asks for it

        answer_shells()
    make_app(commands, arguments)(list(arguments), prog_name="sidecar")


def _read_settings(file: Path | None) -> "Settings":
    from sidecar.settings import read_settings  # noqa: PLC0415  an operator's command with --target reads none

    return read_settings(file, os.environ)


def _serve(settings: "Settings") -> int:
    from sidecar.composition.process import run  # noqa: PLC0415  only this command needs gRPC and an event loop

    return run(settings)


def _load(folder: Path, max_sub_agents: int) -> "LoadedCatalogue":
    from sidecar.adapters.definitions_directory.git_history import GitHistory  # noqa: PLC0415  only `validate` needs it
    from sidecar.adapters.definitions_directory.loading import load_directory  # noqa: PLC0415  the same holds

    commits_of = GitHistory(folder).commits_of
    return load_directory(folder, commits_of=commits_of, max_sub_agents=max_sub_agents)


def _compare(folder: Path, base: "BaseSelection") -> "Comparison":
    from sidecar.adapters.definitions_directory.comparison import compare  # noqa: PLC0415  only `validate-refs` needs it

    return compare(folder, base)


def _checkouts() -> "Checkouts":
    from sidecar.adapters.definitions_directory.cleanup.inspect_checkout import look  # noqa: PLC0415  only `subagent decommission` needs it
    from sidecar.adapters.definitions_directory.cleanup.patch_draft import patch_of  # noqa: PLC0415  the same holds
    from sidecar.cli.validate.checkouts import Checkouts  # noqa: PLC0415  the same holds

    return Checkouts(patch_of, look)


def _token_tools() -> "TokenTools":
    from sidecar.composition.operators.token_minting import token_tools  # noqa: PLC0415  only `token` needs it

    return token_tools(os.environ)


def _plugin_tools() -> "PluginTools":
    from sidecar.cli.plugins.command import PluginTools  # noqa: PLC0415  only `plugins` needs it

    _tell_ctrl_c_apart()
    return PluginTools(_built_ins, _policy, _plugin_sections)


def _tell_ctrl_c_apart() -> None:
    """Make Ctrl-C raise `Interrupted`, which ends the command.

    A command that loads plugins continues after any exception of a plugin, even a `KeyboardInterrupt` that it raised.
    """
    import signal  # noqa: PLC0415  only commands that load plugins need it

    from sidecar.policy.problems import Interrupted  # noqa: PLC0415  the same holds

    def interrupt(*_: object) -> None:
        raise Interrupted

    # A signal that the parent process has set to be ignored, e.g. a shell script for a job in the background, stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)


def _environment() -> "FromEnvironment":
    from sidecar.cli.subagent.command import FromEnvironment  # noqa: PLC0415  only `subagent` needs it

    return FromEnvironment(
        token=lambda: os.environ.get("SIDECAR_ROLE_TOKEN", ""),
        target=lambda: os.environ.get("SIDECAR_TARGET", ""),
    )


def _examine() -> "Examine":
    from sidecar.composition.doctor import examine  # noqa: PLC0415  only `doctor` needs it

    _tell_ctrl_c_apart()
    return examine


def _gate_tools() -> "GateTools":
    from sidecar.adapters.system import SystemClock  # noqa: PLC0415  only `gate` needs it
    from sidecar.cli.gate_command import GateTools  # noqa: PLC0415  the same holds
    from sidecar.composition.checked_policy import checked_policy, policies_of_vertical  # noqa: PLC0415  the same holds

    return GateTools(_load, checked_policy, policies_of_vertical, SystemClock())


def _built_ins() -> Sequence[object]:
    from sidecar.composition.plugins.built_ins import BUILT_INS  # noqa: PLC0415  only `plugins` needs it

    return BUILT_INS


def _policy(settings: "Settings | None") -> "PolicySettings":
    from sidecar.composition.plugins.from_settings import policy_by_default, policy_settings  # noqa: PLC0415  only `plugins` needs it

    return policy_settings(settings) if settings else policy_by_default()


def _plugin_sections(settings: "Settings") -> "Mapping[PluginKind, Mapping[str, Any]]":
    from sidecar.composition.plugins.from_settings import plugin_sections  # noqa: PLC0415  only `plugins` needs it

    return plugin_sections(settings)


def _open_memory(settings: "Settings") -> "AbstractAsyncContextManager[BoundedMemory]":
    from sidecar.composition.plugins.conversations import conversations_of  # noqa: PLC0415  only `history` needs it

    return conversations_of(settings)


def _migrate(settings: "Settings", preview: bool) -> Sequence[str]:
    from sidecar.composition.record.record_files import migrate_record  # noqa: PLC0415  only `migrate` needs it

    return migrate_record(settings, preview)


def _rebuild_projection(settings: "Settings", progress: "Progress") -> int:
    from sidecar.composition.record.projection import rebuild_projection  # noqa: PLC0415  only `projection` needs it

    return rebuild_projection(settings, progress)


def _back_up(settings: "Settings", target: Path) -> None:
    from sidecar.composition.record.record_files import back_up_record  # noqa: PLC0415  only `backup` needs it

    back_up_record(settings, target)


def _declare_loss(settings: "Settings", reason: str, confirmed: "Callable[[Sequence[str]], bool]") -> "LossDeclaration":
    import asyncio  # noqa: PLC0415  only `restored` needs it

    from sidecar.composition.record.restoration import declare_loss  # noqa: PLC0415  the same holds

    return asyncio.run(declare_loss(settings, reason, confirmed))


def _erase_offline(settings: "Settings", options: "EraseOptions", *, preview: bool) -> "ErasureReport":
    from sidecar.composition.offline_erasure import erase_offline  # noqa: PLC0415  only `erase --offline` needs it

    return erase_offline(settings, options, preview=preview)


def _verify_log() -> "VerifyLog":
    from sidecar.cli.record.verify_command import VerifyLog  # noqa: PLC0415  only `verify-log` needs it

    return VerifyLog(_record_source, _run_verification)


def _record_source(file: Path) -> "RecordSource":
    from sidecar.composition.record.verification import record_source  # noqa: PLC0415  only `verify-log` needs it

    return record_source(_read_settings(file))


def _run_verification(source: "RecordSource", as_json: bool) -> int:
    from sidecar.cli.record.verify_log import verify_log  # noqa: PLC0415  only this command needs a database
    from sidecar.composition.record.verification import verifying  # noqa: PLC0415  the same holds

    return verify_log(source, verifying(), sys.stdout, sys.stderr, as_json=as_json)


def _replay(settings: "Settings | None", definitions: Path | None, options: "ReplayOptions") -> int:
    from sidecar.cli.record.replay import replay  # noqa: PLC0415  only this command needs gRPC and the operations
    from sidecar.composition.replay import replaying  # noqa: PLC0415  the same holds

    return replay(options, replaying(settings, definitions), sys.stdout)
