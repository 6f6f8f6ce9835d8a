"""A runner host that runs any card."""

from importlib.metadata import PackageNotFoundError, version

from sidecar_runner_langchain.runtime import AgentRuntime
from subagents_client.runner import HostLimits, RunnerHost


def langchain_host(runtime: AgentRuntime | None = None, limits: HostLimits | None = None) -> RunnerHost:
    """Return a host that runs every slot with one runtime; serve it with `await host.serve(address)`.

    Args:
        runtime: with models, graphs and tools of your own; default: what the cards say and nothing else.
        limits: how much at once, and how it ends.
    """
    host = RunnerHost(software=_software(), limits=limits)
    host.any_sub_agent(needs_card=True)((runtime or AgentRuntime()).run)
    return host


def _software() -> str:
    try:
        return f"sidecar-runner-langchain/{version('sidecar-runner-langchain')}"
    except PackageNotFoundError:  # run from a tree that is not installed
        return "sidecar-runner-langchain"
