"""Rollouts, events and answers for tests of what keeps them."""

from datetime import UTC, datetime, timedelta

from sidecar.core.identifiers import Commit, DefinitionId, Digest, Slot, Vertical
from sidecar.core.rollout.decommission_facts import (
    Choice,
    CleanupStep,
    CodeStatus,
    CompletedStep,
    Decision,
    Decommission,
)
from sidecar.core.rollout.events import AuditCohort, DecommissionMark, RolloutEvent, RolloutEventKind, TransitionEvent
from sidecar.core.rollout.facts import Breach, DefinitionFacts, FlagPair, Override, SlotRollout, Tombstone
from sidecar.core.rollout.states import LifecycleState, Trigger
from sidecar.operations.rollout.store.ports import KeptDefinition, RolloutWrite, StoredAnswer

STRANGE = "why \\u0000 \x00 not — 'quoted' \ue000 €"
"""Text that a database may trip over."""


def moment(seconds: float = 0) -> datetime:
    """Return a time."""
    return datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC) + timedelta(seconds=seconds)


def some_facts(name: str = "shop", ramp: int = 0) -> DefinitionFacts:
    """Return the facts of a definition, with every attribute said."""
    return DefinitionFacts(
        digest=Digest(f"sha256:{name}"),
        definition_id=DefinitionId(name),
        commit=Commit("c0ffee"),
        vertical=Vertical("retail"),
        shape="shape",
        state=LifecycleState.PROMOTE,
        ramp=ramp,
        activated_at=moment(),
        flag="ai_shop",
        flags=FlagPair.ON,
        killed=Tombstone(moment(1), "ada", STRANGE),
        breach=Breach("b1", moment(2), "too slow"),
        target=Digest("sha256:before"),
        target_recorded=True,
        overrides=(Override("pre_ramp", 0, 100, "ada", "known", moment(60)),),
        decommission_began_at=moment(3),
        decommission=a_decommission(),
    )


def a_decommission() -> Decommission:
    """Return one with every attribute said."""
    step = CompletedStep(
        step=CleanupStep.MODULES,
        at=moment(4),
        by="ada",
        reason=STRANGE,
        confirmed=STRANGE,
        definition_version="5",
        code=CodeStatus.DEPRECATED,
    )
    decided = Decision(choice=Choice.RETAIN, at=moment(5), by="bob", reason=STRANGE)
    return Decommission(
        began_at=moment(3), due_at=moment(9), by="ada", reason=STRANGE, steps=(step,), evals=decided, tools=decided
    )


def a_rollout(slot: str = "search", revision: int = 1, ramp: int = 0) -> SlotRollout:
    """Return a rollout with one definition."""
    facts = some_facts(ramp=ramp)
    return SlotRollout(
        slot=Slot(slot), revision=revision, definitions={facts.digest: facts}, curve=(100, 2500), salt=slot
    )


def a_transition(
    name: str = "shop", target: LifecycleState = LifecycleState.PROMOTE, at: float = 0, actor: str = "ada"
) -> TransitionEvent:
    """Return a transition."""
    return TransitionEvent(
        slot=Slot("search"),
        subagent_id=DefinitionId(name),
        digest=Digest(f"sha256:{name}"),
        source_state=LifecycleState.TEST,
        target_state=target,
        trigger=Trigger.GATE,
        agent_definition_commit=Commit("c0ffee"),
        cohort=AuditCohort("v1", ("ai_shop",), 2.5),
        at=moment(at),
        actor=actor,
        reason=STRANGE,
        request_id="r",
    )


def an_event(detail: str = "", name: str = "shop", at: float = 0) -> RolloutEvent:
    """Return an event that is no transition."""
    return RolloutEvent(
        slot=Slot("search"),
        subagent_id=DefinitionId(name),
        digest=Digest(f"sha256:{name}"),
        what=RolloutEventKind.RAMP_SET,
        at=moment(at),
        actor="ada",
        reason=STRANGE,
        request_id="r",
        before=0,
        after=100,
        detail=detail,
        decommission=DecommissionMark(
            step="modules",
            trigger=Trigger.OPERATOR,
            agent_definition_commit=Commit("c0ffee"),
            cohort=AuditCohort("v1", ("ai_shop",), 2.5),
        ),
    )


def an_answer(
    request_id: str = "r1",
    fingerprint: str = "f1",
    kind: str = "done",
    text: str = "{}",
    at: float = 0,
    asker: str = "ada",
) -> StoredAnswer:
    """Return an answer."""
    return StoredAnswer(request_id, fingerprint, kind, text, moment(at), asker)


def a_definition(name: str = "shop", card: str = STRANGE) -> KeptDefinition:
    """Return a definition to keep."""
    return KeptDefinition(
        Digest(f"sha256:{name}"), DefinitionId(name), Slot("search"), Commit("c0ffee"), card, moment()
    )


def a_write(
    revision: int = 1,
    *,
    slot: str = "search",
    ramp: int = 0,
    transitions: tuple[TransitionEvent, ...] = (),
    events: tuple[RolloutEvent, ...] = (),
    answer: StoredAnswer | None = None,
) -> RolloutWrite:
    """Return the write that makes `revision` of a rollout."""
    return RolloutWrite(
        slot=Slot(slot),
        expected_revision=revision - 1,
        rollout=a_rollout(slot, revision, ramp),
        transitions=transitions,
        events=events,
        answer=answer,
    )


def words(revision: int, *, events: tuple[RolloutEvent, ...] = (), answer: StoredAnswer | None = None) -> RolloutWrite:
    """Return a write about a rollout that stays at `revision`."""
    return RolloutWrite(slot=Slot("search"), expected_revision=revision, events=events, answer=answer)
