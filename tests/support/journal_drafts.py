"""Drafts of facts as a sidecar makes them; everything that a test does not care about is filled in."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.executing.contract import (
    DEFAULT_OUTPUTS,
    Budgets,
    Contract,
    Execution,
    Parent,
    Permissions,
    WorkflowStep,
)
from sidecar.core.identifiers import (
    CallId,
    ChildId,
    DefinitionId,
    Digest,
    DispatchId,
    EpisodeId,
    InstanceId,
    Principal,
    Slot,
    TurnId,
)
from sidecar.core.journal.encoding import fact_of
from sidecar.core.journal.entries import Draft, Fact
from sidecar.core.journal.facts import (
    Body,
    CallsSettled,
    ChildrenOpened,
    ChildStart,
    DispatchOpened,
    DispatchTaken,
    Intents,
    Progress,
    Routing,
    Settlement,
    TurnEnded,
)
from sidecar.core.journal.marks import Mark, Values, What
from sidecar.core.journal.opening.claims import unnamed
from sidecar.core.journal.opening.contracts import ContractPosition, said_above, said_in, stripped
from sidecar.core.journal.opening.requests import Join, Request, asked_of, texts_of
from sidecar.core.journal.texts import EndTexts, OutcomeTexts, Texts
from subagents_errors import CallFailure

BEGIN: Final = datetime(2026, 3, 1, 12, 0, 0, 123_457, tzinfo=UTC)
DIGEST: Final = "sha256:" + "ab" * 32


def moment(microseconds: int = 0) -> datetime:
    """Return a time, so many microseconds after a fixed one."""
    return BEGIN + timedelta(microseconds=microseconds)


def some_claims(turn: str = "turn-1", slots: Sequence[str] = ("shop", "rewards"), **fields: Any) -> SurfaceClaims:
    """Return what a turn was bound to."""
    given: dict[str, Any] = {
        "episode_id": EpisodeId("episode-1"),
        "principal": Principal("user-1"),
        "source": "chat",
        "locale": "de",
        "location": "Bonn",
        "date": "2026-03-01",
        "orchestrator_digest": Digest(DIGEST),
        "orchestrator_id": "concierge",
        "tools": tuple((Slot(slot), Digest(DIGEST)) for slot in slots),
        "candidates": tuple((Slot(slot), DefinitionId(slot), "chosen") for slot in slots),
        "versions": ("v1", "b1", "x1"),
        "flags": ("flag",),
        "arm": "",
        "previous": (),
        "fan_out_cap": 3,
        "max_dispatches": 8,
        "bound_at": moment(),
        "expires_at": moment(900_000_000),
    }
    return SurfaceClaims(turn_id=TurnId(turn), **(given | fields))


def a_request(dispatch: str = "dispatch-1", slots: Sequence[str] = ("shop",), **fields: Any) -> Request:
    """Return a request that asks `slots`, one call each."""
    given: dict[str, Any] = {
        "declared_intent_count": 1,
        "prior_context": "They like boots.",
        "task_prompt": "What is new?",
        "on_disconnect": "cancel",
        "continue_for": None,
        "join": Join(None, None, None),
    }
    calls = tuple(
        ToolCall(CallId(f"{dispatch}-call-{place}"), f"ask_{slot}", '{"request": "what is new in the shop?"}')
        for place, slot in enumerate(slots)
    )
    return Request(
        surface_token="", binding_digest=DIGEST, dispatch_id=DispatchId(dispatch), calls=calls, **(given | fields)
    )


def a_contract(turn: str, slot: str, step: int, **texts: Any) -> Contract:
    """Return a contract as the core makes it of a small card, with other texts if they are given."""
    said = {
        "description": "what is new in the shop?",
        "task_prompt": "What is new?",
        "goal_summary": "They like boots.",
        "title": f"ask_{slot}",
    } | texts
    return Contract(
        parent=Parent(run_id=turn, step_idx=step, task_prompt=said["task_prompt"], goal_summary=said["goal_summary"]),
        step=WorkflowStep(title=said["title"], description=said["description"], success_criteria=()),
        permissions=Permissions(allowed_tools=(), can_spawn_children=False, max_delegation_depth=0),
        execution=Execution(attempt_timeout_ms=20_000, max_retries=0, close_on_completion=True),
        outputs=DEFAULT_OUTPUTS,
        budgets=Budgets(wall_clock_ms=None, tool_calls=None, tokens=None, idle_timeout_ms=None, time_left_ms=9843),
        sub_agent_id=Slot(slot),
        definition_id=slot,
        definition_digest=DIGEST,
        definition_commit=DIGEST,
        ownership=(f"slot:{slot}",),
        parent_child_id=said.get("parent_child_id"),
    )


def an_opening(
    request: Request, claims: SurfaceClaims | None = None, first_step: int = 0, places: Sequence[int] = (0,)
) -> tuple[DispatchOpened, Texts]:
    """Return the opening of a dispatch, with children for the calls at `places`.

    Args:
        request: as sent.
        claims: of the turn, if no other fact has them.
        first_step: emission index of the first call.
        places: of the calls that start at once.
    """
    turn = "" if claims is None else claims.turn_id
    starts, contracts = [], []
    for place in places:
        slot = request.calls[place].tool_name.removeprefix("ask_")
        digest = None if claims is None else dict(claims.tools).get(Slot(slot))
        at = ContractPosition(TurnId(turn), Slot(slot), first_step + place, said_in(request, place), digest=digest)
        bare, texts = stripped(a_contract(turn, slot, first_step + place), at)
        child_id = ChildId(f"{request.dispatch_id}-child-{place}")
        starts.append(ChildStart(child_id, Slot(slot), first_step + place, place, bare))
        contracts.append(texts)
    body = DispatchOpened(
        dispatch_id=request.dispatch_id,
        claims=None if claims is None else unnamed(claims).claims,
        asked=asked_of(request),
        first_step=first_step,
        places=3,
        intents=Intents(1, 1, switched=False, prior_context_missing=False),
        settle_after=100_000_000,
        children=tuple(starts),
    )
    return body, Texts(
        user=None if claims is None else unnamed(claims).user, request=texts_of(request), contracts=tuple(contracts)
    )


def a_start(child_id: str, slot: str, step: int, parent: int | None = None) -> tuple[ChildStart, Texts]:
    """Return a child that starts later, with the texts of its fact; its contract is that of `a_contract`."""
    said = said_above(a_contract("", slot, 0)) if parent is not None else said_in(a_request(slots=(slot,)), 0)
    place = ContractPosition(TurnId(""), Slot(slot), step, said, None)
    bare, texts = stripped(a_contract("", slot, step), place)
    return ChildStart(ChildId(child_id), Slot(slot), step, 0, bare, parent), Texts(contracts=(texts,))


def a_later_child(
    dispatch: str, start: tuple[ChildStart, Texts], progress: Sequence[Progress] = ()
) -> tuple[ChildrenOpened, Texts]:
    """Return a child that opens after its dispatch, with its texts."""
    return ChildrenOpened(DispatchId(dispatch), (start[0],), tuple(progress)), start[1]


def marks(*whats: What) -> tuple[Mark, ...]:
    """Return marks, a millisecond apart, up to the time of their fact."""
    return tuple(Mark(what, 1000 * (place - len(whats))) for place, what in enumerate(whats, 1))


VALUES: Final[dict[What, Values]] = {
    What.ATTEMPT: (1, "attempt-1"),
    What.FAILED: ("runner_failed", "it raised"),
    What.REJECTED: ("not what was asked",),
    What.CLOSED: ("integrated",),
    What.TOOL_REFUSED: ("delete_all", "TOOL_NOT_ALLOWED"),
    What.DATA_WITHHELD: ("offers", "unavailable", "offers", "unix:/run/offers.sock", "ENOENT", "start it"),
    What.REPEATED: ("runner_failed",),
    What.BUDGET_STOPPED: ("tokens",),
    What.DELEGATION_REFUSED: ("ask_bank", "not_bound"),
    What.LEFT_OUT: ({"agent.tool_refused": 7},),
}
"""Of each event that stores some, as an example; what is not here is derived."""


def values_of(*whats: What) -> tuple[Values, ...]:
    """Return the values of marks."""
    return tuple(VALUES.get(what, ()) for what in whats)


def progress(step: int, *whats: What, attempts: int = 0) -> Progress:
    """Return what happened to one child."""
    return Progress(step, marks(*whats), attempts)


def a_settlement(place: int, *, ran: bool = True, revision: int = 0, **fields: Any) -> Settlement:
    """Return the outcome of a call: it succeeded, or was not started if it did not run."""
    usual: dict[str, Any] = {
        "outcome": Outcome.SUCCEEDED if ran else Outcome.NOT_STARTED,
        "reason": None,
        "slot": None if ran else Slot("shop"),
        "attempts": int(ran),
        "took": 1_234 if ran else None,
        "tokens": (10, 20) if ran else None,
    }
    return Settlement(place=place, ran=ran, revision=revision, **(usual | fields))


def a_settling(
    dispatch: str, calls: Sequence[Settlement], whats: Sequence[What] = (), steps: Sequence[int] = (), attempts: int = 1
) -> tuple[CallsSettled, Texts]:
    """Return that calls settled, and that `whats` happened to the children at `steps` before."""
    body = CallsSettled(
        DispatchId(dispatch), tuple(calls), tuple(progress(step, *whats, attempts=attempts) for step in steps)
    )
    outcomes = tuple(OutcomeTexts("found it", (("list", "{}", '{"rows":[1]}'),)) for _ in calls)
    return body, Texts(outcomes=outcomes, values=values_of(*whats) * len(steps))


def an_end(
    claims: SurfaceClaims | None = None, whats: Sequence[What] = (), steps: Sequence[int] = ()
) -> tuple[TurnEnded, Texts]:
    """Return the end of a turn, with `whats` for the children at `steps`."""
    body = TurnEnded(
        claims=None if claims is None else unnamed(claims).claims,
        close_reason="ended",
        routing=Routing((), 1_501, "orchestrator", gate_passed=True),
        progress=tuple(progress(step, *whats) for step in steps),
    )
    end = EndTexts("e" * 64, "Here it is.", "What is new?")
    return body, Texts(
        user=None if claims is None else unnamed(claims).user, values=values_of(*whats) * len(steps), end=end
    )


def a_taking(dispatch: str, epoch: int) -> tuple[DispatchTaken, Texts]:
    """Return that a dispatch is taken."""
    return DispatchTaken(DispatchId(dispatch), epoch), Texts()


def a_draft(turn: str, by: str, at: int, body: Body, texts: Texts) -> Draft:
    """Return a draft."""
    return Draft(TurnId(turn), InstanceId(by), moment(at), body, texts)


def salted_fact(draft: Draft, salt: bytes, links: Sequence[bytes]) -> Fact:
    """Return a draft as it is appended, with `salt` as its own."""
    return fact_of(msgspec.structs.replace(draft, salt=salt), links)


D1 = DispatchId("dispatch-1")
QUESTION = (
    "needs_input",
    "Which size?",
    "",
    "user",
    "2026-03-02T12:00:00+00:00",
    "receipt-1",
    b"state-1",
)
"""Values of the mark with which a child asks back."""


def a_question(*, over: bool) -> Iterator[tuple[Body, Texts]]:
    """Yield the facts of a turn whose one child asks back; `over`: with its end."""
    yield an_opening(a_request(D1, ("shop",)), some_claims())
    asked = a_settlement(0, outcome=Outcome.SUSPENDED, reason=CallFailure.NEEDS_INPUT)
    told = (progress(0, What.SUSPENDED, What.WAITING, attempts=1),)
    yield CallsSettled(D1, (asked,), told), Texts(outcomes=(OutcomeTexts(),), values=(QUESTION, ()))
    if over:
        end, texts = an_end(None, (), ())
        closed = (progress(0, What.ACCEPTED, What.CLOSED, attempts=1),)
        yield (
            msgspec.structs.replace(end, progress=closed),
            msgspec.structs.replace(texts, values=((), ("integrated",))),
        )
