"""Which phases each kind of step passes on its way to the record: what the table says, and what the frame does."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from sidecar.adapters.rollout_memory import MemoryRollouts
from sidecar.core.identifiers import DefinitionId
from sidecar.core.rollout.facts import Breach, FlagPair
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.rollout import requests
from sidecar.operations.rollout.requests import StepRequest, Transition
from sidecar.operations.rollout.steps.phases import PHASES
from sidecar.operations.rollout.steps.take_step import ExecuteStep
from sidecar.operations.rollout.stored_answers import AuditContext
from sidecar.policy.lifecycle import Step
from tests.support.requirement import requirement
from tests.support.stopping import SHOP, Rollouts
from tests.unit.rollout.building import NOW


@dataclass
class Asks:
    """In the place of proofs, policies, gates and flags: notes in which order they are asked, and lets all pass."""

    order: list[str] = field(default_factory=list)

    async def prove(self, *about: object) -> None:
        """Prove it."""
        self.order.append("proof")

    async def check(self, *about: object) -> tuple[str, ...]:
        """Agree: policies are asked with a `Step`, flags are not."""
        self.order.append("policies" if isinstance(about[0], Step) else "flags")
        return ()

    async def ask_all(self, question: object, gates: tuple[str, ...], *about: object) -> tuple[str, ...]:
        """Pass every gate."""
        self.order.extend(gates)
        return ()

    async def unserved(self, *about: object) -> tuple[str, ...]:
        """Find nothing to warn of."""
        return ()

    async def prepare(self, *about: object) -> tuple[str, ...]:
        """Find nothing to switch."""
        return ()

    def confirmed(self, change: object, *about: object) -> object:
        """Leave the change as it is."""
        return change

    def kill_flag_exists(self, *about: object) -> bool:
        """See the flag."""
        return True


def asking(kind: type[StepRequest], **fields: Any) -> StepRequest:
    """Return a request about `shop`."""
    return kind(definition_id=DefinitionId(SHOP.definition.id), request_id="r-1", reason="because", **fields)


async def asked_by(asked: StepRequest, **facts: Any) -> list[str]:
    """Take a step of a definition; returns who was asked, in order."""
    rollouts, asks = Rollouts(), Asks()
    rollouts.serve(SHOP, **facts)
    fake = cast("Any", asks)
    take = ExecuteStep(
        store=MemoryRollouts(rollouts.clock, rollouts.contents),
        clock=rollouts.clock,
        audit_context=lambda: AuditContext("5", ()),
        proofs=fake,
        policies=fake,
        gates=fake,
        flags=fake,
        by_hand=fake,
        decommissioning=fake,
    )
    assert (await take(asked, "ada")).changed
    return asks.order


IN_TEST = {"state": LifecycleState.TEST, "ramp": 0, "activated_at": None, "flags": FlagPair.NAMED}
AT_10_PERCENT = {"ramp": 1000}


@requirement("PF1-D-31")
@pytest.mark.parametrize(
    ("asked", "facts", "order"),
    [
        (asking(requests.Kill), AT_10_PERCENT, []),
        (asking(requests.RampDown, breach_id="b-1"), AT_10_PERCENT, ["flags"]),
        (asking(requests.RollBack), AT_10_PERCENT, ["proof", "flags"]),
        (asking(requests.AcknowledgeBreach, breach_id="b-1"), {"breach": Breach("b-1", NOW, "unsafe")}, ["flags"]),
        (asking(requests.RetireFlags), {}, ["policies", "flags"]),
        (asking(requests.SetRamp, to=2500, actor_role="operator"), AT_10_PERCENT, ["policies", "pre_ramp", "flags"]),
        (asking(Transition, step=Step.PROMOTE), IN_TEST, ["proof", "policies", "pre_merge", "flags"]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, StepRequest) else "",
)
async def test_a_step_asks_only_what_its_row_names_and_a_kill_asks_nothing(
    asked: StepRequest, facts: dict[str, Any], order: list[str]
) -> None:
    """Proofs first, then policies, then gates; flags as late as can be."""
    assert await asked_by(asked, **facts) == order


def test_only_kills_and_ramp_downs_hold_before_they_are_on_record() -> None:
    """And only a kill compares no revision: it can be taken although nothing was read before."""
    assert {kind for kind, phases in PHASES.items() if phases.holds is not None} == {requests.Kill, requests.RampDown}
    assert {kind for kind, phases in PHASES.items() if not phases.by_revision} == {requests.Kill}


def test_every_kind_of_step_has_a_row() -> None:
    """Each request from which no other is derived; a move of the lifecycle has one by its step."""
    found: set[object] = set()
    todo: list[type[StepRequest]] = [StepRequest]
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        if not kind.__subclasses__():
            found.add(kind)
    assert set(PHASES) == (found - {Transition}) | {Step.TO_TEST, Step.PROMOTE}
