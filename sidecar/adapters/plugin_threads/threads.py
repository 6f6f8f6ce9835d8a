"""Creates the objects of plugins: for an installed plugin in a thread of its own, for a built-in one on the event loop.

Code of an installed plugin may block. In its own thread it delays neither turns nor other plugins.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from sidecar.policy.kinds import PluginKind
from sidecar.policy.loading import PluginHost
from sidecar.policy.specs import ConnectorSpec, PluginSpec, RunnerSpec

if TYPE_CHECKING:
    from sidecar.adapters.plugin_threads.thread import OnProblem, PluginThread
    from sidecar.policy.protocols import Connector, Runner

Made = TypeVar("Made")


class PluginThreads:
    """Creates objects and their threads; implements `Making`.

    All runners of one plugin instance share a thread, because there may be as many runners as sub-agents.

    Args:
        host: tells which plugins are built in.
        on_problem: receives a report when a thread is blocked.
    """

    def __init__(self, host: PluginHost, on_problem: "OnProblem") -> None:
        self._host = host
        self._on_problem = on_problem
        # Entries are never removed: runners are closed only when the sidecar stops.
        self._of_runners: dict[str, PluginThread] = {}

    def made(self, spec: PluginSpec, make: Callable[[], Made]) -> Made:
        """Create an object that is neither a connector nor a runner, and wait for it. Raises `PluginProblem`."""
        if self._host.is_own(spec):
            return make()
        from sidecar.adapters.plugin_threads.isolated import isolated  # noqa: PLC0415  only with installed plugins

        made: Made = isolated(spec, make, self._thread(spec))
        return made

    def connector(self, spec: ConnectorSpec, make: "Callable[[], Connector]", *, needs_user_token: bool) -> "Connector":
        """Create a connector. An error of `make` is raised for a built-in plugin; for an installed one, calls fail."""
        if self._host.is_own(spec):
            return make()
        from sidecar.adapters.plugin_threads.made_later import IsolatedConnector  # noqa: PLC0415  only with plugins

        return IsolatedConnector(self._thread(spec), make, needs_user_token=needs_user_token)

    def runner(self, spec: RunnerSpec, make: "Callable[[], Runner]", target: str) -> "Runner":
        """Create a runner. An error of `make` is raised for a built-in plugin; for an installed one, attempts fail."""
        if self._host.is_own(spec):
            return make()
        from sidecar.adapters.plugin_threads.made_later import IsolatedRunner  # noqa: PLC0415  only with plugins

        return IsolatedRunner(self._thread(spec), make, target)

    def _thread(self, spec: PluginSpec) -> "PluginThread":
        from sidecar.adapters.plugin_threads.thread import PluginThread  # noqa: PLC0415  only with plugins

        thread = self._of_runners.get(spec.name) if spec.kind is PluginKind.RUNNER else None
        if thread is None:
            thread = PluginThread(f"{spec.kind} {spec.name}", self._on_problem)
        if spec.kind is PluginKind.RUNNER:
            self._of_runners[spec.name] = thread
        thread.users += 1
        return thread
