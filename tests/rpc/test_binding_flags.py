"""Flags at the bind: an entry with `enabled_via_flag` is on the surface only while its flags are confirmed on."""

import pytest

from sidecar.core.definitions.cards.card import Card
from tests.rpc.test_binding import tools_of, verdicts_of
from tests.support.builders import a_card
from tests.support.fake_runner import answers
from tests.support.harness import running_sidecar_for_tests
from tests.support.requirement import requirement

KILL, COHORT = "ai_assistant_subagent_beta", "ai_assistant_subagent_beta_cohort"


def cards() -> list[Card]:
    """Return a sub-agent without a flag and one with."""
    return [a_card("shop"), a_card("beta", enabled_via_flag=KILL)]


@requirement("PF1-FR-2b", "PF1-AC-1a", "PF1-AC-1b", "PF1-D-18")
async def test_a_flagged_sub_agent_starts_off_the_surface_and_others_are_not_touched() -> None:
    """Its flag was never set: it is listed, left out, and no failure; the unflagged one is there."""
    async with running_sidecar_for_tests(cards=cards()) as sidecar:
        bound = await sidecar.bind()
        assert tools_of(bound) == ["ask_shop"]
        assert verdicts_of(bound) == {"shop": "CHOSEN", "beta": "FLAG_OFF"}
        assert (await sidecar.dispatch(bound, "ask_shop")).outcomes == ["SUCCEEDED"]


@pytest.mark.parametrize(
    ("on", "unreachable", "verdict"),
    [
        ([], [], "FLAG_OFF"),
        ([KILL], [], "COHORT"),
        ([COHORT], [], "FLAG_OFF"),
        ([KILL, COHORT], [], "CHOSEN"),
        ([], [KILL], "FLAG_STALE"),
        ([KILL], [COHORT], "FLAG_STALE"),
    ],
)
@requirement("PF1-FR-9b", "PF1-T-4", "PF1-T-19", "PF1-D-34")
async def test_the_kill_flag_wins_over_the_cohort_and_unreachable_is_neither(
    on: list[str], unreachable: list[str], verdict: str
) -> None:
    """The table of both flags, by the names that the id makes; a backend that is away leaves the entry out."""
    async with running_sidecar_for_tests(cards=cards()) as sidecar:
        sidecar.flags.on, sidecar.flags.unreachable = on, unreachable
        bound = await sidecar.bind()
        assert verdicts_of(bound)["beta"] == verdict
        assert ("ask_beta" in tools_of(bound)) == (verdict == "CHOSEN")
        assert "ask_shop" in tools_of(bound)


@requirement("PF1-FR-9c", "PF1-AC-4a", "PC2-D-7")
async def test_a_flag_that_goes_off_takes_the_sub_agent_from_the_next_bind() -> None:
    """For every user, and without asking the flags again in between."""
    async with running_sidecar_for_tests(cards=cards()) as sidecar:
        sidecar.flags.on = [KILL, COHORT]
        assert "ask_beta" in tools_of(await sidecar.bind())
        sidecar.flags.on = [COHORT]
        for principal in ("user-1", "user-2", "user-3"):
            bound = await sidecar.bind(principal=principal)
            assert tools_of(bound) == ["ask_shop"]
            assert (await sidecar.dispatch(bound, "ask_beta")).outcomes == ["REFUSED"]


@requirement("PF1-FR-8b", "PF1-T-5")
async def test_a_turn_finishes_on_what_it_bound_although_the_flag_went_off() -> None:
    """The flag goes off between the bind and two dispatches; both reach the sub-agent."""
    async with running_sidecar_for_tests(cards=cards()) as sidecar:
        sidecar.flags.on = [KILL, COHORT]
        bound = await sidecar.bind()
        sidecar.flags.on = []
        sidecar.runner.use("beta", answers("still here"))
        for _ in range(2):
            assert (await sidecar.dispatch(bound, "ask_beta")).of("call-1").narration == "still here"
        ended = await sidecar.end(bound)
        assert list(ended.routing_decision.cohort.active_sub_agents) == ["shop", "beta"]


@requirement("PF1-D-37", "PF1-D-38", "PF1-D-75")
async def test_the_cohort_tells_the_users_of_different_surfaces_apart() -> None:
    """Six fields; the flags that this configuration mentions and that are on, and who may be asked."""
    async with running_sidecar_for_tests(cards=cards()) as sidecar:
        sidecar.flags.on = [COHORT, KILL, "flag_of_somebody_else"]
        cohort = (await sidecar.bind(experiment_arm="arm-b")).surface.cohort
        assert [field.name for field in cohort.DESCRIPTOR.fields] == [
            "agent_definition_version",
            "prompt_block_registry_version",
            "xml_prompt_component_registry_version",
            "active_feature_flags",
            "experiment_arm_assignment",
            "active_sub_agents",
        ]
        assert list(cohort.active_feature_flags) == [KILL, COHORT]
        assert cohort.experiment_arm_assignment == "arm-b"
        assert list(cohort.active_sub_agents) == ["shop", "beta"]
        sidecar.flags.on = []
        assert list((await sidecar.bind()).surface.cohort.active_sub_agents) == ["shop"]
