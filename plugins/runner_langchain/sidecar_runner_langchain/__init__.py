"""The shared agent runtime: any card becomes a LangChain agent, so that a vertical ships no code.

host = langchain_host()
await host.serve("unix:/run/agents/agents.sock")
"""

from sidecar_runner_langchain.attempt import current_run
from sidecar_runner_langchain.card_tools import LocalTool
from sidecar_runner_langchain.failures import AgentFailed, CardNotRunnable
from sidecar_runner_langchain.history import HistoryReader, PastTurn
from sidecar_runner_langchain.host import langchain_host
from sidecar_runner_langchain.models import ModelMaker, model_of
from sidecar_runner_langchain.runtime import AgentLimits, AgentRuntime

__all__ = [
    "AgentFailed",
    "AgentLimits",
    "AgentRuntime",
    "CardNotRunnable",
    "HistoryReader",
    "LocalTool",
    "ModelMaker",
    "PastTurn",
    "current_run",
    "langchain_host",
    "model_of",
]
