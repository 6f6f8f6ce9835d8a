"""Calls of plugins: each ends within its limit, whatever the plugin does short of blocking the event loop.

A call runs in a task of its own. A call that ignores its cancellation is abandoned, and its result is discarded. While
too many calls of one plugin are abandoned, further ones fail immediately: a hanging plugin affects only itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from msgspec import Struct, field

from sidecar.operations.first_result import FirstResult
from sidecar.operations.ports import Recorder, Spawner

Answer = TypeVar("Answer")

MOST_LEFT_BEHIND: Final = 16
"""The most abandoned calls of one plugin, or of one part of it."""
REPORT_AFTER: Final = 5.0
"""Seconds after its cancellation at which a call that still runs is reported."""

OnHung = Callable[[str, int], None]
"""Receives the report of a call that continues after its cancellation: the plugin's name, and the number of its calls
that do so now. Must not raise."""


class PluginFailed(Exception):
    """A plugin did not answer. The message says how, without the text of the plugin's exception.

    Attributes:
        error: the plugin's exception; None: it raised none.
    """

    def __init__(self, how: str, error: BaseException | None = None) -> None:
        super().__init__(how)
        self.error = error


class PluginLate(PluginFailed):
    """The plugin did not answer within the limit."""


class PluginHung(PluginFailed):
    """The plugin was not called, because too many earlier calls still run although they were cancelled."""


class _Answered(Struct, Generic[Answer], frozen=True):
    answer: Answer


class _Exchange(Struct, Generic[Answer]):
    """One call.

    Attributes:
        runs: its task has begun and has not ended.
        left_behind: the caller has its result, and the call counts as abandoned until it ends.
        ending: settles with the result that counts, which may be the time limit.
    """

    plugin: str
    runs: bool = False
    left_behind: bool = False
    ending: FirstResult[_Answered[Answer] | PluginFailed] = field(default_factory=FirstResult)


class PluginCalls:
    """Calls that end in time.

    Args:
        spawner: owns the tasks.
        on_hung: receives calls that continue after their cancellation.
        report_after: seconds after the cancellation at which such a call is reported.
    """

    def __init__(self, spawner: Spawner, on_hung: OnHung, report_after: float = REPORT_AFTER) -> None:
        self._spawner = spawner
        self._on_hung = on_hung
        self._report_after = report_after
        self._left_behind: dict[str, int] = {}

    @property
    def left_behind(self) -> int:
        """The number of calls that still run although they were cancelled."""
        return sum(self._left_behind.values())

    async def ask(self, plugin: str, seconds: float, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the result of `call`. It may have any type: the caller must check it.

        Args:
            plugin: the name under which abandoned calls are counted.
            seconds: the limit.
            call: begins the work; none of its exceptions is propagated, not even one that it raises immediately.

        Raises:
            PluginLate, PluginHung, PluginFailed. Never an exception of the plugin.
        """
        if self._left_behind.get(plugin, 0) >= MOST_LEFT_BEHIND:
            raise PluginHung(f"{MOST_LEFT_BEHIND} earlier calls run on although they were cancelled")
        exchange: _Exchange[Answer] = _Exchange(plugin)
        late = PluginLate(f"no answer within {seconds:g} s")
        # A timer that settles the result, and no timeout around the task: a plugin that ignores its cancellation would
        # delay the caller beyond the limit.
        limit = asyncio.get_running_loop().call_later(seconds, exchange.ending.settle, late)
        task = self._spawner.spawn(self._carry_out(call, exchange), f"call of {plugin}")
        try:
            end = await exchange.ending.wait()
        finally:
            limit.cancel()
            exchange.ending.settle(late)  # if the caller was cancelled: a result that arrives later is discarded
            # A task that has not begun yet finds the result settled and ends without calling the plugin.
            if exchange.runs:
                task.cancel()
                self._leave_behind(exchange)
        if isinstance(end, PluginFailed):
            raise end
        return end.answer

    async def _carry_out(self, call: Callable[[], Awaitable[Answer]], exchange: _Exchange[Answer]) -> None:
        if exchange.ending.settled:
            return  # the caller was cancelled before the task began
        exchange.runs = True
        try:
            exchange.ending.settle(_Answered(await call()))
        except BaseException as error:
            # Also `SystemExit` and the like: a plugin must not end the process.
            exchange.ending.settle(PluginFailed(type(error).__name__, error))
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            exchange.runs = False
            if exchange.left_behind:
                self._count(exchange.plugin, -1)

    def _leave_behind(self, exchange: _Exchange[Answer]) -> None:
        """Count a cancelled call that still runs. Most end at once, so a report follows only after a while."""
        exchange.left_behind = True
        self._count(exchange.plugin, 1)
        asyncio.get_running_loop().call_later(self._report_after, self._report, exchange)

    def _count(self, plugin: str, change: int) -> None:
        self._left_behind[plugin] = self._left_behind.get(plugin, 0) + change
        # An entry for each plugin that ever hung would keep its name for ever; tools come and go with the
        # configuration.
        if not self._left_behind[plugin]:
            del self._left_behind[plugin]

    def _report(self, exchange: _Exchange[Answer]) -> None:
        if exchange.runs:
            # The entry exists: this call itself counts as abandoned until it ends.
            self._on_hung(exchange.plugin, self._left_behind[exchange.plugin])


def hung_reports(recorder: Recorder) -> OnHung:
    """Return a function that reports hanging plugin calls to a recorder."""

    def report(plugin: str, count: int) -> None:
        text = f"a call of {plugin} runs on although it was told to stop ({count} now); restart the sidecar"
        recorder.anomaly("plugin_hung", text)

    return report
