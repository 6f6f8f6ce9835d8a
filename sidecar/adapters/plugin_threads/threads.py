"""Creates the objects of plugins: of installed plugins in threads, of built-in plugins on the event loop."""

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
    """Creates objects and their threads; implements the interface `Making`.

    All runners of an instance share one thread, because there may be a runner for each sub-agent.

    Args:
        host: knows which plugins are built in.
        on_problem: receives the report that a thread is blocked.
    """

    def __init__(self, host: PluginHost, on_problem: "OnProblem") -> None:
        self._host = host
        self._on_problem = on_problem
        self._of_runners: dict[str, PluginThread] = {}

    def made(self, spec: PluginSpec, make: Callable[[], Made]) -> Made:
        """Create an object, and wait until it exists. Raises `PluginProblem`."""
        if self._host.is_own(spec):
            return make()
        from sidecar.adapters.plugin_threads.isolated import isolated  # noqa: PLC0415  only with installed plugins

        made: Made = isolated(spec, make, self._thread(spec))
        return made

    def connector(self, spec: ConnectorSpec, make: "Callable[[], Connector]", *, needs_user_token: bool) -> "Connector":
        """Create a connector. Raises errors of `make` for a built-in plugin; for an installed one, each call fails."""
        if self._host.is_own(spec):
            return make()
        from sidecar.adapters.plugin_threads.made_later import IsolatedConnector  # noqa: PLC0415  the same reason

        return IsolatedConnector(self._thread(spec), make, needs_user_token=needs_user_token)

    def runner(self, spec: RunnerSpec, make: "Callable[[], Runner]", target: str) -> "Runner":
        """Create a runner. Raises errors of `make` for a built-in plugin; for an installed one, each attempt fails."""
        if self._host.is_own(spec):
            return make()
        from sidecar.adapters.plugin_threads.made_later import IsolatedRunner  # noqa: PLC0415  the same reason

        return IsolatedRunner(self._thread(spec), make, target)

    def _thread(self, spec: PluginSpec) -> "PluginThread":
        from sidecar.adapters.plugin_threads.thread import PluginThread  # noqa: PLC0415  the same reason

        thread = self._of_runners.get(spec.name) if spec.kind is PluginKind.RUNNER else None
        if thread is None:
            thread = PluginThread(f"{spec.kind} {spec.name}", self._on_problem)
        if spec.kind is PluginKind.RUNNER:
            self._of_runners[spec.name] = thread
        thread.users += 1
        return thread
