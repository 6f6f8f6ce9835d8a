"""Surfaces are made once for a cohort, and anew as soon as anything they were made from is another."""

from msgspec.structs import replace

from sidecar.core.binding.bind import BindingRules
from sidecar.core.definitions.cards.card import Catalogue
from sidecar.core.flag_states import BackendStatus, FlagReport, FlagRoutes, FlagSnapshot, flag_snapshot_of
from sidecar.core.identifiers import DefinitionId, Slot
from sidecar.core.rollout.facts import FlagPair, SlotRollout
from sidecar.core.rollout.serving import BindSubject
from sidecar.core.rollout.view import RolloutView
from sidecar.operations.turn.cohort_surfaces import KEPT, CohortSurfaces
from tests.support.builders import a_card, a_catalogue
from tests.support.promoted import promoted
from tests.support.requirement import requirement
from tests.unit.rollout.building import facts

FLAG = "ai_assistant_subagent_shop"
GATED = a_catalogue(a_card("shop", enabled_via_flag=FLAG), a_card("rewards"))
ALL = promoted(GATED)
RULES = BindingRules(fan_out_cap=3, max_dispatches=4)


def flags(*on: str) -> FlagSnapshot:
    """Return a snapshot in which exactly these are on."""
    contacts = {"memory": BackendStatus(FlagReport(frozenset(on), "1"), 0.0)}
    return flag_snapshot_of(FlagRoutes("memory"), contacts, now=0.0, max_staleness=10.0)


def names(surfaces: CohortSurfaces, catalogue: Catalogue, now: FlagSnapshot, arm: str = "") -> list[str]:
    """Return the tools of the cohort's surface."""
    orchestrator = catalogue.cards[DefinitionId("concierge")]
    return [
        tool.name
        for tool in surfaces.surface(
            catalogue, orchestrator, now, BindSubject("user-1", arm), promoted(catalogue)
        ).tools
    ]


def test_a_cohort_shares_one_surface() -> None:
    """The same object for the same definitions, flags and arm; another for another arm."""
    surfaces, now, orchestrator = CohortSurfaces(RULES), flags(), GATED.cards[DefinitionId("concierge")]

    first = surfaces.surface(GATED, orchestrator, now, BindSubject("user-1", "a"), ALL)

    assert surfaces.surface(GATED, orchestrator, now, BindSubject("user-1", "a"), ALL) is first
    assert (
        surfaces.surface(GATED, orchestrator, now, BindSubject("user-1", "b"), ALL).cohort.experiment_arm_assignment
        == "b"
    )


@requirement("PF1-D-74", "PF1-NFR-4c")
def test_new_flags_and_new_definitions_show_in_the_next_surface() -> None:
    """A flag goes on, then a sub-agent is taken away; nothing remembered stands in the way."""
    surfaces, on = CohortSurfaces(RULES), flags(FLAG, f"{FLAG}_cohort")
    fewer = replace(a_catalogue(a_card("rewards")), agent_definition_version="definitions-2")

    before = names(surfaces, GATED, flags())

    assert before == ["ask_rewards"]
    assert names(surfaces, GATED, on) == ["ask_shop", "ask_rewards"]
    assert names(surfaces, fewer, on) == ["ask_rewards"]


def test_many_experiment_arms_do_not_fill_the_memory() -> None:
    """One more than is kept: what was remembered is dropped, the answers stay right."""
    surfaces, now, orchestrator = CohortSurfaces(RULES), flags(), GATED.cards[DefinitionId("concierge")]
    first = surfaces.surface(GATED, orchestrator, now, BindSubject("user-1", "0"), ALL)

    for number in range(1, KEPT + 1):
        surfaces.surface(GATED, orchestrator, now, BindSubject("user-1", str(number)), ALL)

    again = surfaces.surface(GATED, orchestrator, now, BindSubject("user-1", "0"), ALL)
    assert again is not first
    assert again == first


@requirement("PF1-NFR-4b")
def test_what_is_remembered_is_what_would_be_judged() -> None:
    """Four hundred users of a slot at 10 % with a target at 50 %: each gets what a fresh judgement gives."""
    shop, rewards = a_card("shop"), a_card("rewards")
    catalogue = a_catalogue(shop, rewards)
    orchestrator = catalogue.cards[DefinitionId("concierge")]
    old = facts("old", digest=rewards.digest, flag=None, flags=FlagPair.NONE, ramp=5000)
    new = facts("new", digest=shop.digest, flag=None, flags=FlagPair.NONE, ramp=1000, target=old.digest)
    of = SlotRollout(slot=Slot("shop"), definitions={each.digest: each for each in (old, new)}, active=new.digest)
    view, now, shared = RolloutView({of.slot: of}), flags(), CohortSurfaces(RULES)
    made: dict[int, bool] = {}

    for number in range(400):
        asker = BindSubject(f"user-{number}")
        found = shared.surface(catalogue, orchestrator, now, asker, view)
        assert found == CohortSurfaces(RULES).surface(catalogue, orchestrator, now, asker, view)
        made[id(found)] = True

    assert len(made) == 3
