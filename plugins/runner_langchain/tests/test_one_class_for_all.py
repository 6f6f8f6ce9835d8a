"""The orchestrator and every vertical are agents of one class; a vertical brings a card, no class and no process."""

from typing import Any

from langchain_core.messages import HumanMessage

from plugins.runner_langchain.tests.support.agents import by_persona, run_by
from plugins.runner_langchain.tests.support.scripted_model import calls, results, says, scripted
from sidecar_runner_langchain import AgentRuntime
from sidecar_runner_langchain.agents import agent_of
from subagents_client import SidecarClient, TurnRequest
from subagents_langchain import Orchestrator
from tests.support.requirement import requirement
from tests.support.whole_chain import running_chain

SLOTS = ("shop", "rewards", "support")
PERSONAS = {"shop": "shopping assistant", "rewards": "rewards assistant", "support": "support assistant"}


@requirement("PC1-D-2")
async def test_the_orchestrator_and_all_verticals_are_of_one_class_in_one_host() -> None:
    """The example's four: one runtime and one host run the three cards, each as itself, without code of its own."""
    models = {PERSONAS[slot]: scripted(says(f"{slot} here")) for slot in SLOTS}
    runtime = AgentRuntime(models=by_persona(models))
    leading = scripted(
        calls(*((f"ask_{slot}", {"request": "x"}) for slot in SLOTS)), lambda said: says(str(results(said)))
    )
    async with running_chain() as chain:
        for slot in SLOTS:
            chain.use(slot, run_by(runtime))
        target, secret = f"unix:{chain.folder}/d/s.sock", chain.sidecar.boot_secret
        async with SidecarClient.connect(target, boot_secret=secret) as client:
            orchestrator = Orchestrator(client, leading)
            turn = TurnRequest(principal="user-1", episode_id="episode-1")
            answer = await orchestrator.answer(turn, [HumanMessage("All of it, please.")])
        cards = {run.sub_agent_id: run.card for run in chain.runs}

    agents: list[Any] = [agent_of(cards[slot], by_persona(models), {}) for slot in SLOTS]
    assert {type(agent) for agent in agents} == {type(orchestrator.graph)}
    assert answer.text == str([f"{slot} here" for slot in SLOTS])
