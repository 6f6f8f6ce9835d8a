"""The orchestrator's model is told how many assistants it may ask, and in which order, by the prompt that is bound."""

from hashlib import sha256

from tests.support.requirement import requirement
from tests.support.whole_chain import running_chain

FIRST_LINE = "Ask at most {} in one response, those that matter most to the user first: calls beyond the first\n"


@requirement("PC2-FR-7b")
async def test_the_prompt_names_the_cap_in_force_and_asks_for_the_most_relevant_first() -> None:
    """Cap 2 and cap 5, one and the same routing block: each prompt names its own number and no placeholder."""
    for cap in (2, 5):
        async with running_chain(fan_out_cap=cap) as chain:
            surface = (await chain.bind()).surface
        prefix = surface.prompt.prefix
        assert FIRST_LINE.format(cap) + f"{cap} are not carried out." in prefix
        assert (surface.fan_out_cap, "{{" in prefix) == (cap, False)
        assert surface.prompt.prefix_digest == f"sha256:{sha256(prefix.encode()).hexdigest()}"


@requirement("PC1-D-20")
async def test_the_cap_keeps_the_prefix_the_same_for_a_whole_cohort() -> None:
    """Three users: one prefix. Two caps: two prefixes, since the operator's constant is part of the text."""
    prefixes = []
    for cap in (2, 5):
        async with running_chain(fan_out_cap=cap) as chain:
            bound = [(await chain.bind(principal=f"user-{user}")).surface for user in "abc"]
        prefixes.append({surface.prompt.prefix for surface in bound})
    assert [len(each) for each in prefixes] == [1, 1]
    assert prefixes[0] != prefixes[1]
