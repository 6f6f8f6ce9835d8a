"""What a host is told of a card, from `agent_config.yaml` to the attempt."""

from tests.support.requirement import requirement
from tests.support.whole_chain import running_chain

ALL_THREE = {
    "      reasoning_effort: low\n      max_output_tokens: 800\n": (
        "      reasoning_effort: high\n      max_output_tokens: 700\n      text_verbosity: low\n"
    )
}


@requirement("PC1-FR-1i")
async def test_a_host_gets_each_key_of_tuning_as_its_card_says_it() -> None:
    """One card with all three, one with two of them; what a card leaves out is left to the model."""
    async with running_chain(ALL_THREE) as chain:
        await chain.dispatch(await chain.bind(), "ask_shop", "ask_rewards")
        cards = [run.card for slot in ("shop", "rewards") for run in chain.runs_of(slot)]

    found = [(card.max_output_tokens, card.reasoning_effort, card.text_verbosity) for card in cards]
    assert found == [(700, "high", "low"), (0, "low", "medium")]
