"""Reports the state of the process in log, metrics and readiness: definitions, flags, loops, limits, defects.

Operations call these objects through small interfaces, so that they know neither names of metrics nor texts of the log.
"""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sidecar.adapters.definitions_directory.source import DefinitionsChange
from sidecar.composition.telemetry.attention import watch_turns_and_data
from sidecar.core.definitions.files.problems import Problem
from sidecar.observability import call_names, event_names, names
from sidecar.observability.log_thread import LossyQueue
from sidecar.observability.logging import StructuredLog
from sidecar.observability.metrics import Labels, Metrics
from sidecar.observability.readiness import Readiness
from sidecar.operations.flag_snapshot import ContactState, FlagContactChanged, FlagSnapshotKeeper
from sidecar.operations.ports import Recorder
from sidecar.operations.process.turn_assembly import Operations
from sidecar.rpc.handler_guard import OnEnded

if TYPE_CHECKING:
    from sidecar.operations.blocked_stack import Holder

PROBLEMS_SHOWN: Final = 20
"""The most problems in one log line or on `/readyz`. A broken directory can have thousands."""
NOT_NEEDED_FOR_TURNS: Final = frozenset(
    {
        "checkpoint key",
        "checkpointing",
        "retention",
        "audit retention",
        "historycatchup",
        "telemetry",
        "operator_issuer",
        "user_token_keys",
        "projector",
        "certificates",
    }
)
"""Loops that no turn depends on: signatures, cleanup and exports. A turn is served correctly while they are down."""
AUDIT_EXPORT: Final = "auditexport "
"""The name of an export loop begins with this; the name of its sink follows."""
LAG_BOUNDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
RPC_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Seconds. The range is wide because a bind takes milliseconds, and a dispatch as long as its slowest sub-agent."""
NO_PLUGIN: Final = "none"
"""The label `plugin` of a hold-up that no plugin caused."""
IN_FORCE: Final = "in_force"
REFUSED: Final = "refused"


class DefinitionsReports:
    """Reports each new version of the definitions, whether it is valid or not."""

    def __init__(self, metrics: Metrics, readiness: Readiness) -> None:
        self._readiness = readiness
        self._log = StructuredLog("sidecar.definitions")
        self._last: DefinitionsChange | None = None
        self._loads = metrics.counter(names.DEFINITIONS_LOADS, "New states of the definitions.", "result")
        # A series that first appears with the value 1 has no increase in Prometheus, so each starts at 0.
        for result in (IN_FORCE, REFUSED):
            self._loads.add(result, by=0)
        metrics.gauge(names.DEFINITIONS_INVALID, "1: the newest state has errors.", lambda: float(not self._valid()))
        metrics.gauges(names.DEFINITIONS_PROBLEMS, "Problems of the newest state.", self._counts, "severity")
        metrics.gauges(names.DEFINITIONS_REVISION, "The revision in force.", self._revision, "revision")
        # Until the first valid definitions: without them, a bind could only offer an empty surface.
        readiness.block("definitions", "no valid definitions have been loaded; run `sidecar validate`")
        readiness.section("definitions", self._section)
        readiness.watch(self._attention)

    def changed(self, change: DefinitionsChange) -> None:
        """Log and count a new version of the definitions."""
        self._last = change  # first: the gauges read it
        problems = [problem.render() for problem in change.loaded.problems]
        if change.in_force:
            self._loads.add(IN_FORCE)
            text = "new definitions are in use"
            self._log.info(event_names.DEFINITIONS_CHANGED, text, revision=change.revision, warnings=_first(problems))
            self._readiness.clear("definitions")
        else:
            self._loads.add(REFUSED)
            # No `block` here: turns are still served, with the definitions from before.
            stays = "the last valid ones stay in use" if change.revision else "no definitions are in use"
            text = f"the newest definitions have errors; {stays}"
            self._log.error(event_names.DEFINITIONS_REFUSED, text, revision=change.revision, problems=_first(problems))

    def _attention(self) -> Sequence[str]:
        if self._last is None or self._valid():
            return ()
        return ("the newest definitions have errors; /readyz and the log list them",)

    def _valid(self) -> bool:
        return self._last is not None and self._last.in_force

    def _counts(self) -> dict[Labels, float]:
        problems: tuple[Problem, ...] = self._last.loaded.problems if self._last else ()
        errors = sum(problem.is_error for problem in problems)
        return {("error",): float(errors), ("warning",): float(len(problems) - errors)}

    def _revision(self) -> dict[Labels, float]:
        return {(self._last.revision,): 1.0} if self._last is not None and self._last.revision else {}

    def _section(self) -> dict[str, Any]:
        problems = self._last.loaded.problems if self._last else ()
        return {
            "revision": self._last.revision if self._last else None,
            "newest_state_in_force": self._valid(),
            "problems": _first([problem.render() for problem in problems]),
        }


class FlagReports:
    """Reports when the flags of a backend are up to date again, and when they become too old to use.

    Readiness is not affected: sub-agents without stale flags are still served.
    """

    def __init__(self) -> None:
        self._log = StructuredLog("sidecar.flags")

    def changed(self, change: FlagContactChanged) -> None:
        """Log one change of a backend."""
        fields = {"backend": change.backend, "state": change.state.value, "revision": change.revision}
        if change.state is ContactState.FRESH:
            self._log.info(event_names.FLAGS_CONTACT, "flags are fresh", **fields)
        else:
            text = "flags are unreachable; sub-agents gated by them are left out"
            self._log.warning(event_names.FLAGS_CONTACT, text, detail=change.detail, **fields)


class LoopReports:
    """Reports background loops that end. While a loop that turns depend on is down, the sidecar is not ready."""

    def __init__(self, metrics: Metrics, readiness: Readiness) -> None:
        self._readiness = readiness
        self._log = StructuredLog("sidecar.loops")
        self._deaths = metrics.counter(names.LOOP_DEATHS, "Background loops that ended.", "loop")

    def loop_down(self, name: str, error: BaseException) -> None:
        """Report that a loop has ended."""
        self._deaths.add(name)  # also of `NOT_NEEDED_FOR_TURNS`: alert rules select the loops themselves
        self._log.error(event_names.LOOP_DIED, "a background loop has ended and is restarted", error, loop=name)
        # Audit exports are not needed for turns, either; there is one loop for each sink.
        if name not in NOT_NEEDED_FOR_TURNS and not name.startswith(AUDIT_EXPORT):
            self._readiness.block(f"loop {name}", f"the background loop {name} is down; see the log")

    def loop_up(self, name: str) -> None:
        """Report that the loop runs again."""
        self._readiness.clear(f"loop {name}")


class LagReports:
    """Reports that a blocking call holds up the event loop, i.e. that no other work of the process advances."""

    def __init__(self, metrics: Metrics, readiness: Readiness) -> None:
        self._log = StructuredLog("sidecar.loops")
        self._lag = metrics.histogram(names.LOOP_LAG, "Seconds until the event loop answers.", LAG_BOUNDS)
        self._held_up = metrics.counter(names.LOOP_HELD_UP, "Hold-ups of the event loop.", "plugin")
        self._held_up.add(NO_PLUGIN, by=0)  # so that the first hold-up is a rise from 0
        self._last: dict[str, Any] | None = None
        readiness.section("event_loop", lambda: {"last_held_up": self._last})

    def answered(self, seconds: float) -> None:
        """Add one measurement: how long the event loop took to answer the watchdog."""
        self._lag.observe(seconds)

    def held_up(self, holder: "Holder") -> None:
        """Log the function that holds the loop.

        The watchdog's thread calls this method, so it does not touch the metrics, which belong to the loop's thread.
        """
        fields: dict[str, Any] = {"plugin": holder.plugin or NO_PLUGIN, "frame": holder.frame, "stack": holder.stack}
        self._log.error(event_names.LOOP_HELD, "a call blocks the event loop; no turn makes progress", **fields)

    def released(self, holder: "Holder", seconds: float) -> None:
        """Count a hold-up after its end."""
        fields: dict[str, Any] = {
            "plugin": holder.plugin or NO_PLUGIN,
            "frame": holder.frame,
            "seconds": round(seconds, 3),
        }
        # Here and not in `held_up`: this method runs in the thread of the event loop, which owns the metrics.
        self._held_up.add(holder.plugin or NO_PLUGIN)
        self._last = {**fields, "ended_at": datetime.now(UTC).isoformat(timespec="seconds")}
        self._log.warning(event_names.LOOP_RELEASED, "the event loop runs again", **fields)


class LimitReports:
    """Counts calls that were refused because a limit is reached."""

    def __init__(self, metrics: Metrics) -> None:
        self._log = StructuredLog("sidecar.admission")
        text = "Calls refused because a limit is reached."
        self._refused = metrics.counter(call_names.ADMISSION_REFUSED, text, "limit")
        for limit in call_names.LIMITS:
            self._refused.add(limit, by=0)  # so that the first refusal is a rise from 0

    def refused(self, limit: str) -> None:
        """Count a refused call."""
        self._refused.add(limit)
        text = "a call was refused: a limit is reached"
        self._log.warning(event_names.REFUSED_FOR_LIMIT, text, kind=limit)

    def counts(self) -> dict[str, float]:
        """Return the number of refused calls by limit since the start, without limits that were never reached."""
        return {limit: count for (limit,), count in self._refused.series.items() if count}


def rpc_durations(metrics: Metrics) -> OnEnded:
    """Return the function that measures RPCs and operations of lanes. It is called once for each of them."""
    text = "Seconds of RPCs and of operations of lanes."
    return metrics.histogram(call_names.RPC_SECONDS, text, RPC_BOUNDS, *call_names.RPC_LABELS).observe


class DefectReports:
    """Reports defects of the sidecar. Callers get a neutral sentence; the error text may contain users' data."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._log = StructuredLog("sidecar.defects")

    def of_call(self, method: str, correlation_id: str, error: BaseException) -> None:
        """Report an unexpected exception of a handler."""
        self._recorder.anomaly("call_failed_inside", method)
        # With the id that the caller received, so that both can be matched.
        self._log.error(
            event_names.ANOMALY, "a call failed inside", error, method=method, correlation_id=correlation_id
        )

    def of_page(self, path: str, error: BaseException) -> None:
        """Report that a page of the ops address could not be rendered."""
        self._recorder.anomaly("page_failed", path)
        self._log.error(event_names.ANOMALY, "a page could not be made", error, path=path)

    def of_task(self, name: str, error: BaseException) -> None:
        """Report an exception of a background task, which no caller awaits."""
        self._recorder.anomaly("stray_error", type(error).__name__)  # the type only: a text may contain data of a user
        self._log.error(event_names.ANOMALY, "a task ended with an error", error, task=name)


def show_process(metrics: Metrics, readiness: Readiness, operations: Operations, flags: FlagSnapshotKeeper) -> None:
    """Add the gauges of the process."""
    metrics.gauge(names.TURNS_OPEN, "Turns that are open.", lambda: operations.turns.open)
    metrics.gauge(names.TURNS_IDLE, "Open turns in which nothing runs.", lambda: operations.turns.idle)
    metrics.gauge(names.DISPATCHES_RUNNING, "Dispatches that run.", lambda: operations.dispatch_calls.running)
    text = "Bytes of the answers and requests of ended turns."
    metrics.gauge(call_names.ENDED_BYTES, text, lambda: operations.turns.ended_bytes)
    metrics.gauges(
        call_names.VERTICAL_DISPATCHES,
        "Dispatches that call sub-agents of a vertical.",
        lambda: {(each,): float(count) for each, count in operations.dispatch_calls.places.by_vertical.items()},
        "vertical",
    )
    metrics.gauge(names.GRANTS_ALIVE, "Attempts that may call tools.", lambda: operations.grants.alive)
    # Read once: a gauge that is computed from the present clock would move when the clock is set.
    started = time.time()
    # The present clock beside the start time: alerts can compute the age of the process, and detect a clock that is
    # off.
    metrics.gauge(call_names.CLOCK, "The clock of the process, in seconds since 1970.", time.time)
    metrics.gauge(names.START_TIME, "When the process started, in seconds since 1970.", lambda: started)
    metrics.gauge(names.READY, "1 while new turns are taken.", lambda: float(readiness.ready))
    metrics.gauges(names.FLAGS_STALE, "1: flags are too old to be used.", lambda: _stale(flags), "backend")
    readiness.section(
        "flags", lambda: {"stale": list(flags.current().stale_backends), "failures": dict(flags.failures())}
    )
    watch_turns_and_data(metrics, readiness, operations.turns)
    readiness.section(
        "work",
        lambda: {
            "turns_open": operations.turns.open,
            "turns_idle": operations.turns.idle,
            "dispatches_running": operations.dispatch_calls.running,
        },
    )


def show_lost_lines(metrics: Metrics, log: LossyQueue) -> None:
    """Show how many log lines were not written."""
    lost = "Log lines dropped because their reader was too slow."
    metrics.counted_elsewhere(names.LOG_LINES_LOST, lost, lambda: {(): float(log.lost)})
    left_out = "Warnings and errors that were too many of one kind to be written."
    metrics.counted_elsewhere(names.LOG_LINES_LEFT_OUT, left_out, lambda: {(): float(log.limit.left_out)})


def _stale(flags: FlagSnapshotKeeper) -> dict[Labels, float]:
    snapshot = flags.current()
    stale = snapshot.stale_backends
    return {(name,): float(name in stale) for name in snapshot.routes.backends}


def _first(problems: list[str]) -> list[str]:
    # The number of the rest is told, so that a list that was cut does not look complete.
    rest = len(problems) - PROBLEMS_SHOWN
    return [*problems[:PROBLEMS_SHOWN], *([f"and {rest} more"] if rest > 0 else [])]
