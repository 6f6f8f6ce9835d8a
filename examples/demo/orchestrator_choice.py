"""Who plays the assistant: the example's own loop or the orchestrator on LangChain, and with which model."""

import os
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from examples.consumer_agent.agent import Audience, ConsumerAgent, Conversation, User
from examples.consumer_agent.rule_based import RuleBasedModel
from subagents_client import SidecarClient

PLAIN: Final = "plain"
LANGCHAIN: Final = "langchain"
LONGEST_REASON: Final = 160
Begin = Callable[[SidecarClient, User, Audience], Conversation]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorChoice:
    """Who plays the assistant.

    Attributes:
        orchestrator: in a few words.
        model: in a few words.
        remark: why it is another model than was asked for; empty if it is not.
        scripted: whether the model says the same every time, so that the demo's checks hold.
        begin: begins a conversation.
        begin_offline: the same with the offline model.
        evaluates: whether `sidecar eval` is there, so that the rollout can measure for itself.
    """

    orchestrator: str
    model: str
    remark: str
    scripted: bool
    begin: Begin
    begin_offline: Begin
    evaluates: bool


def langchain_is_there() -> bool:
    """Whether LangChain and the orchestrator on it are installed."""
    return all(find_spec(name) is not None for name in ("langchain", "subagents_langchain"))


def choose_orchestrator(orchestrator: str, wanted_model: str) -> OrchestratorChoice:
    """Decide who plays.

    Args:
        orchestrator: `plain` or `langchain`.
        wanted_model: as `init_chat_model` takes it, e.g. `openai:gpt-5.4-mini`; empty: the offline one.

    Raises:
        ImportError: LangChain was asked for and is not there.
    """
    if orchestrator == LANGCHAIN:
        return _langchain(wanted_model)

    def plain(client: SidecarClient, user: User, audience: Audience) -> Conversation:
        return ConsumerAgent(client, RuleBasedModel(), user, audience)

    return OrchestratorChoice(
        orchestrator="the example's own loop on the SDK",
        model=RuleBasedModel.name,
        remark=f"MODEL={wanted_model} needs LangChain: make demo-langchain MODEL=…" if wanted_model else "",
        scripted=True,
        begin=plain,
        begin_offline=plain,
        evaluates=False,
    )


def without_empty_keys(environment: MutableMapping[str, str]) -> None:
    """Remove keys of providers that are set but empty: their clients would take them for keys."""
    for name in [name for name, value in environment.items() if name.endswith("_KEY") and not value]:
        del environment[name]


def _langchain(wanted_model: str) -> OrchestratorChoice:
    from langchain.chat_models import init_chat_model  # noqa: PLC0415  not installed for `make demo`

    from examples.consumer_agent.langchain_agent import LangChainAgent  # noqa: PLC0415  imports LangChain
    from examples.consumer_agent.langchain_model import OfflineChatModel, OfflineSummaryModel  # noqa: PLC0415  imports LangChain

    def offline(client: SidecarClient, user: User, audience: Audience) -> Conversation:
        return LangChainAgent(client, OfflineChatModel(), OfflineSummaryModel(), user, audience)

    evaluates = find_spec("subagents_evals") is not None
    orchestrator, remark = "the reference orchestrator on LangChain's create_agent", ""
    if wanted_model:
        without_empty_keys(os.environ)
        try:
            real = init_chat_model(wanted_model)
        except Exception as error:  # noqa: BLE001  each provider has its own for a missing key or package
            why = str(error).partition("\n")[0].partition(". ")[0][:LONGEST_REASON]
            remark = f"MODEL={wanted_model} could not be set up ({type(error).__name__}: {why})."
        else:
            return OrchestratorChoice(
                orchestrator=orchestrator,
                model=f"{wanted_model}, a real one; it costs its provider's price",
                remark="",
                scripted=False,
                begin=lambda client, user, audience: LangChainAgent(client, real, None, user, audience),
                begin_offline=offline,
                evaluates=evaluates,
            )
    return OrchestratorChoice(
        orchestrator=orchestrator,
        model=RuleBasedModel.name,
        remark=remark,
        scripted=True,
        begin=offline,
        begin_offline=offline,
        evaluates=evaluates,
    )
