"""Runs the sidecar as a process: protects its memory and files, serves until a stop signal, returns an exit code."""

import asyncio
import os
import resource
import sys
from contextlib import suppress
from enum import IntEnum, unique
from typing import Final

import uvloop

from sidecar.adapters.system import reduce_gc_frequency
from sidecar.adapters.system.closed_memory import close_memory
from sidecar.composition.running import running_sidecar
from sidecar.composition.stopping import StopSignals, serve_until_stopped
from sidecar.composition.telemetry.background_reports import LagReports, show_lost_lines
from sidecar.observability.log_thread import LossyQueue
from sidecar.observability.logging import logging_to, standard_error
from sidecar.observability.redaction import Redactor
from sidecar.policy.problems import EX_CONFIG, PluginProblem
from sidecar.rpc.socket_files import AddressInUse, CannotListen
from sidecar.settings import Settings, SettingsProblem

OTHERS_MAY_NOT_WRITE: Final = 0o022
"""Bits of the umask: new files and sockets are not writable for the group and for other users."""
MACOS_FILES: Final = 10_240
"""The most open files that macOS admits. Its hard limit is "unlimited", but setting that value is an error."""


@unique
class ExitCode(IntEnum):
    """The exit codes of `sidecar serve`; numbers of sysexits.h."""

    OK = 0
    """The sidecar received a stop signal and drained."""
    UNAVAILABLE = 69
    """Another process serves one of the addresses, or has the SQLite record open."""
    INTERNAL = 70
    """A defect; the traceback is in the log."""
    CONFIGURATION = EX_CONFIG
    """Settings, plugins, secrets or directories are invalid or missing."""


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    _set_process_limits()
    redactor = Redactor()
    problem: BaseException
    with logging_to(standard_error(), settings.log.format, settings.log.level, redactor) as log:
        try:
            # Before any secret is read: another process of this user could read a secret from the open memory.
            if not settings.server.allow_debugging and not close_memory():
                raise SettingsProblem(["server.allow_debugging: the system refuses to close the memory; set it"])
            # uvloop instead of the standard loop: a dispatch consists of many small socket operations, which it handles
            # faster.
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(_serve(settings, redactor, log))
        # Errors of the operator, not of the sidecar: they get a message that says what to do, and no traceback.
        except (SettingsProblem, PluginProblem, CannotListen) as refused:
            problem = refused
        except Exception as defect:  # noqa: BLE001  the process ends here, with a code that says why
            sys.excepthook(type(defect), defect, defect.__traceback__)
            return ExitCode.INTERNAL
        else:
            return ExitCode.OK
    # After the log is closed, so that this line is the last one. It is cleaned, because a problem may quote a setting.
    sys.stderr.write(redactor.clean(f"the sidecar cannot start:\n{problem}\n"))
    # A supervisor may retry after `UNAVAILABLE`: the process that serves the address may be about to end.
    return ExitCode.UNAVAILABLE if isinstance(problem, AddressInUse) else ExitCode.CONFIGURATION


async def _serve(settings: Settings, redactor: Redactor, log: LossyQueue) -> None:
    signals = StopSignals()
    # Around the start as well: a signal during a slow start must lead to an orderly stop, not to a killed process.
    with signals.caught():
        async with running_sidecar(settings, redactor) as sidecar:
            show_lost_lines(sidecar.metrics, log)
            # Lets the thread of the log write the line "listens" before the garbage collection below blocks all
            # threads.
            await asyncio.sleep(0)
            # After everything is built: the objects that exist now live as long as the process, and are never examined
            # again.
            reduce_gc_frequency()
            from sidecar.observability.loop_watchdog import LoopWatchdog  # noqa: PLC0415  the sidecar listens already

            # Last, because the watchdog would report the start, whose imports block the loop, as hold-ups.
            reports = LagReports(sidecar.metrics, sidecar.readiness)
            watchdog = LoopWatchdog(asyncio.get_running_loop(), reports, sidecar.plugin_modules)
            with watchdog.watching():
                await serve_until_stopped(sidecar, signals)


def _set_process_limits() -> None:
    """Disable core dumps, which would contain keys and users' data; protect new files; raise the limit of open files.

    Other users may not write to files that the process creates from now on.
    """
    # `umask` can only be read by setting it, so the present mask is read first and then extended.
    os.umask(os.umask(OTHERS_MAY_NOT_WRITE) | OTHERS_MAY_NOT_WRITE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The second value is for macOS, where the first can be "unlimited", which the call refuses. A process that keeps
    # its present limit still works: the listeners limit connections by what is available.
    for limit in (most, max(now, MACOS_FILES)):
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
            return
