"""Intent switches: what sub-agents that were not asked before are told of the conversation, and by whom."""

from decimal import Decimal

from langchain_core.messages import HumanMessage

from clients.langchain.tests.support.scripted_model import Messages, calling, composes, raises, says
from clients.langchain.tests.support.talking import Talk, routed, talking
from subagents_langchain import OrchestratorRules, Price, Purpose
from tests.support.requirement import requirement

SUMMARY = "The user has order 4711 with ACME and wants a refund."


def told(talk: Talk, slot: str) -> str | None:
    """Return the `prior_context` that a sub-agent was given last."""
    return talk.sidecar.runner.request_of(slot).context.prior_context or None


@requirement("PC1-FR-8a", "PC2-T-13", "PC1-NFR-7b")
async def test_prior_context_is_made_once_and_only_when_the_subject_changes() -> None:
    """Shop, shop again, then support: only the third turn has a summary, made of the narration before it."""
    script = [calling("ask_shop"), says("Order 4711 with ACME."), calling("ask_shop"), says("It was 30 euros.")]
    async with talking(*script, calling("ask_support"), composes, summaries=[says(SUMMARY)]) as talk:
        await talk.say("What did I order?")
        assert told(talk, "shop") is None
        await talk.say("For how much?")
        assert told(talk, "shop") is None
        answer = await talk.say("I want my money back.")

        assert told(talk, "support") == SUMMARY
        (shown,) = talk.summary_model.shown
    earlier = [str(one.text) for one in shown[1:-1]]
    assert earlier == ["What did I order?", "Order 4711 with ACME.", "For how much?", "It was 30 euros."]
    assert shown[-1].text.endswith("I want my money back.")
    assert answer.results[0].intents.switched
    assert not answer.results[0].intents.prior_context_missing


@requirement("PC1-FR-8c", "PC1-NFR-7c")
async def test_the_summary_follows_the_orchestrators_prompt_on_a_model_of_its_own() -> None:
    """The cheaper model is given the prompt whose block says how; its tokens stay out of the user's stream."""
    prices = {"small": Price(Decimal(1), Decimal(1)), "big": Price(Decimal(10), Decimal(10))}
    script = [calling("ask_shop"), says("A."), calling("ask_support"), composes]
    async with talking(
        *script, summaries=[says(SUMMARY, model="small")], rules=OrchestratorRules(prices=prices)
    ) as talk:
        await talk.say()
        answer = await talk.say()

        assert talk.summary_model.prompts == [talk.model.prompts[2]]
        assert "nostream" in talk.summary_model.marked[0]
    costs = [(one.purpose, one.model, one.cost) for one in answer.extra_calls]
    assert costs == [
        (Purpose.PRIOR_CONTEXT, "small", Decimal("0.0011")),
        (Purpose.COMPOSITION, "big", Decimal("0.011")),
    ]


@requirement("PC1-T-10")
async def test_a_reference_into_another_vertical_survives_two_switches() -> None:
    """Shop, support, rewards: each new sub-agent is told what the turns before brought."""

    def sums_up(messages: Messages) -> object:
        return says(" ".join(str(one.text) for one in messages if isinstance(one, HumanMessage))[:200])

    script = [step for slot in ("shop", "support", "rewards") for step in (calling(f"ask_{slot}"), composes)]
    async with talking(*script, summaries=[sums_up, sums_up]) as talk:
        await talk.say("I bought order 4711.")
        await talk.say("Where is it?")
        answer = await talk.say("And my points for it?")

        assert "order 4711" in (told(talk, "support") or "")
        assert "order 4711" in (told(talk, "rewards") or "")
    assert routed(answer) == [("rewards", "succeeded")]


@requirement("PC2-D-49")
async def test_a_second_dispatch_of_the_turn_takes_the_same_summary() -> None:
    """Two responses with calls after a switch, one summary."""
    script = [calling("ask_shop"), says("A."), calling("ask_support"), calling("ask_rewards"), composes]
    async with talking(*script, summaries=[says(SUMMARY)]) as talk:
        await talk.say()
        await talk.say()

        assert (told(talk, "support"), told(talk, "rewards")) == (SUMMARY, SUMMARY)
        assert len(talk.summary_model.shown) == 1


async def test_a_sub_agent_that_was_asked_before_gets_no_summary_in_the_turn_of_a_switch() -> None:
    """The switch was in the first response; the second calls only who was asked in the turn before."""
    script = [calling("ask_shop"), says("A."), calling("ask_support"), calling("ask_shop"), composes]
    async with talking(*script, summaries=[says(SUMMARY)]) as talk:
        await talk.say()
        await talk.say()

        assert (told(talk, "support"), told(talk, "shop")) == (SUMMARY, None)


@requirement("PC1-FR-8a", "PC1-FR-8c")
async def test_a_call_that_brings_its_own_context_costs_no_summary() -> None:
    """As the block tells the router: the sub-agent gets the router's words, and no other model is asked."""
    hands_over = calling("ask_support", prior_context="Order 17.")
    async with talking(calling("ask_shop"), says("A."), hands_over, composes, summaries=[says(SUMMARY)]) as talk:
        await talk.say()
        answer = await talk.say()

        assert told(talk, "support") == "Order 17."
        assert talk.summary_model.shown == []
    assert not answer.results[0].intents.prior_context_missing


async def test_the_turn_goes_on_without_a_summary_if_its_model_fails() -> None:
    """The sub-agent is asked with none, and nobody is shown the error."""
    script = [calling("ask_shop"), says("A."), calling("ask_support"), composes]
    async with talking(*script, summaries=[raises(ConnectionError("CANARY"))]) as talk:
        await talk.say()
        answer = await talk.say()

        assert told(talk, "support") is None
    assert answer.results[0].intents.prior_context_missing
    assert "CANARY" not in str(answer)


async def test_a_summary_longer_than_the_contract_allows_is_cut_at_a_character() -> None:
    """16 KiB, counted in bytes."""
    script = [calling("ask_shop"), says("A."), calling("ask_support"), composes]
    async with talking(*script, summaries=[says("€" * 20_000)]) as talk:
        await talk.say()
        await talk.say()

        assert told(talk, "support") == "€" * (16 * 1024 // 3)
