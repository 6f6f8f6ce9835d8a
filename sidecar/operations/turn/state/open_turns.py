"""The turns that are open here, and how one is found again from its surface token."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from sidecar.core.binding.bind import BindingRules, surface_of, surface_tool
from sidecar.core.binding.surface import Candidate, Surface
from sidecar.core.binding.surface_token import SigningKeys, SurfaceClaims, unseal
from sidecar.core.definitions.cards.card import Card
from sidecar.core.definitions.cards.prompt import DynamicContext, suffix_of
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.errors import SubagentsError, SurfaceTokenExpired, TurnEnded
from sidecar.core.executing.abandoned import cohort_of
from sidecar.core.executing.records import CallSettled, Record
from sidecar.core.history.compaction import CompactionDue
from sidecar.core.identifiers import CallId, ChildId, Digest, DispatchId, TurnId
from sidecar.core.rollout.serving import CandidateVerdict
from sidecar.operations.first_result import Ending
from sidecar.operations.ports import Clock, Definitions
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.ended_turns import EndedTurns
from sidecar.operations.turn.state.lanes import TurnLanes
from sidecar.operations.turn.state.places import Places
from sidecar.operations.turn.state.turn_ends import PARENT_GONE, EndCause, TurnClosed

if TYPE_CHECKING:
    from sidecar.operations.turn.state.live_dispatch import LiveDispatch

NONE_FETCHED: Final[Mapping[Digest, Card]] = MappingProxyType({})


@dataclass(slots=True)
class Turn:
    """One open turn.

    Attributes:
        claims, token: as signed at bind.
        compaction_due: what bind said; the same each time it is repeated here.
        next_step: emission index of the next call.
        reap_at: of the loop's clock.
        uncertain: the store did not confirm something that it may have even so: it is read before the turn is ended.
        idle_since: of the loop's clock: when anything of it was asked for last, or the last work in it was over.
        works: pieces of work that run in it: dispatches, and its end.
        closing: set while and after the turn is being ended.
        closing_request: what it is ended with; None if the parent did not ask for it.
        cause: why it is ended then.
        prepared, closing_records: how it ends and what is written of that; prepared once, so that a repeated end
            appends the same.
        closed: how it ended, once that is on record.
        closed_as: fingerprint of the request that ended it, if another process recorded that; empty by the reaper.
        reported: its routing decision was reported here; only by the process that wrote it.
        late: outcomes that could not be recorded when they came; they go along with the end.
        settling: outcomes that the end gives to what nobody finished; told once the end is on record.
        bound_here: by this process, which therefore knows all of it.
        restored: settled once what is on record of a turn bound elsewhere is known here.
        prompt_suffix: of every prompt of the turn.
    """

    claims: SurfaceClaims
    token: str
    surface: Surface
    reap_at: float
    bind_request: object = None
    compaction_due: CompactionDue = CompactionDue.UNKNOWN
    next_step: int = 0
    lanes: TurnLanes = field(default_factory=TurnLanes)
    dispatches: dict[DispatchId, "LiveDispatch"] = field(default_factory=dict)
    children: dict[ChildId, Child] = field(default_factory=dict)
    uncertain: bool = False
    overhead: timedelta = timedelta(0)
    idle_since: float = 0.0
    works: int = 0
    closing: Ending[TurnClosed | SubagentsError] | None = None
    closing_request: object = None
    cause: EndCause = PARENT_GONE
    prepared: TurnClosed | None = None
    closing_records: list[Record] = field(default_factory=list)
    closed: TurnClosed | None = None
    closed_as: str | None = None
    reported: bool = False
    late: list[CallSettled] = field(default_factory=list)
    settling: dict[DispatchId, dict[CallId, CallOutcome]] = field(default_factory=dict)
    bound_here: bool = True
    restored: Ending[SubagentsError | None] | None = None

    prompt_suffix: str = field(init=False)
    _claims_json: str = ""

    @property
    def claims_json(self) -> str:
        """The claims as text; made when they are first needed: most turns call nothing."""
        if not self._claims_json:
            self._claims_json = msgspec.json.encode(self.claims).decode()
        return self._claims_json

    def __post_init__(self) -> None:
        """Make the suffix once: it is the same for the orchestrator and every sub-agent."""
        claims = self.claims
        date = datetime.fromisoformat(claims.date).date()
        self.prompt_suffix = suffix_of(DynamicContext(date, claims.location, claims.principal, claims.locale))

    @property
    def turn_id(self) -> TurnId:
        """Which turn."""
        return self.claims.turn_id

    def children_of(self, dispatch_id: DispatchId) -> list[Child]:
        """Return the children that the orchestrator's calls of a dispatch have, in emission order."""
        called = (each for each in self.children.values() if each.contract.parent_child_id is None)
        return sorted((each for each in called if each.dispatch_id == dispatch_id), key=lambda each: each.step_idx)

    def drop_late(self, dispatch_id: DispatchId) -> None:
        """Forget the outcomes that go along with the end, of one dispatch."""
        self.late = [each for each in self.late if each.dispatch_id != dispatch_id]

    def runs_elsewhere(self, dispatch_id: DispatchId) -> bool:
        """Say whether another process that lives runs a dispatch, as far as is known here."""
        dispatch = self.dispatches.get(dispatch_id)
        if dispatch is None or dispatch.runs_here or dispatch.finished.settled:
            return False
        return dispatch.owned_elsewhere

    def slim(self) -> None:
        """Forget everything of an ended turn but how it ended, which is what a repeated end is answered with."""
        self.lanes = TurnLanes()
        for kept in (self.dispatches, self.children, self.settling, self.late, self.closing_records):
            kept.clear()

    def refuse_if_over(self) -> None:
        """Raise `TurnEnded` once the turn is being ended, or has been by another process."""
        if self.closing is not None or self.closed is not None:
            raise TurnEnded("the turn has ended; bind a new one", metadata={"turn_id": self.turn_id})


class Turns:
    """The open turns of this process, and for a while the ended ones.

    A turn is idle while nothing runs in it. Idle turns give way to new ones, oldest first; turns in which work runs do
    not, and when there are too many of these, new turns are refused.
    """

    def __init__(self, clock: Clock, definitions: Definitions, keys: SigningKeys, rules: DispatchRules) -> None:
        """Begin with none."""
        self._clock = clock
        self._definitions = definitions
        self._keys = keys
        self._most_idle = rules.admission.idle_turns
        longest = (rules.join_timeout + rules.record_timeout).total_seconds()
        self.working = Places("turns", rules.admission.turns, longest, clock)
        self._turns: dict[TurnId, Turn] = {}
        self._by_token: dict[str, Turn] = {}
        self._idle: dict[TurnId, Turn] = {}
        self._ended = EndedTurns(rules.admission.ended_turns)
        self._give_up: Callable[[Turn], None] = self.forget

    def __iter__(self) -> Iterator[Turn]:
        """Return the turns in order of binding; a copy, so that turns may come and go meanwhile."""
        return iter(list(self._turns.values()))

    @property
    def open(self) -> int:
        """How many have not ended."""
        return self.working.taken + self.idle

    @property
    def idle(self) -> int:
        """How many have not ended although nothing runs in them."""
        return sum(1 for turn in self._idle.values() if turn.closed is None)

    def known(self, turn_id: TurnId) -> Turn | None:
        """Return a turn by id, open or ended, if it is kept here."""
        return self._turns.get(turn_id)

    def gives_up_by(self, give_up: Callable[[Turn], None]) -> None:
        """Have idle turns ended by `give_up` when there are too many; it must not wait."""
        self._give_up = give_up

    def add(self, turn: Turn) -> None:
        """Keep a turn; the oldest idle ones are given up if there are too many.

        Raises:
            AdmissionRefused: work runs in as many turns as allowed.
        """
        self.working.refuse_if_full(
            "turns have work running; come back when some of it is done, or raise dispatch.admission.turns"
        )
        while len(self._idle) >= self._most_idle:
            oldest = self._idle.pop(next(iter(self._idle)))
            if oldest.closed is None:
                self._give_up(oldest)
        self._turns[turn.turn_id] = self._by_token[turn.token] = turn
        self._rest(turn)

    def begins_work(self, turn: Turn) -> None:
        """Work in a turn begins; `ends_work` has to follow."""
        turn.works += 1
        self._idle.pop(turn.turn_id, None)
        self.working.take(id(turn))

    def ends_work(self, turn: Turn) -> None:
        """Work in a turn is over."""
        turn.works -= 1
        if not turn.works:
            self.working.give_back(id(turn))
            self._rest(turn)

    def asked_for(self, turn: Turn) -> None:
        """Take note that somebody asks for a turn: it is the last one to be given up."""
        if turn.closed is not None:
            self.ended(turn)
        elif turn.turn_id in self._idle:
            self._rest(turn)

    def idle_for(self, seconds: float) -> Turn | None:
        """Return the turn that has been idle longest, if it has been so long."""
        turn = next((each for each in self._idle.values() if each.closed is None), None)
        return turn if turn is not None and turn.idle_since <= self._clock.monotonic() - seconds else None

    def _rest(self, turn: Turn) -> None:
        self._idle.pop(turn.turn_id, None)
        if turn.closed is None and self._turns.get(turn.turn_id) is turn:
            turn.idle_since = self._clock.monotonic()
            self._idle[turn.turn_id] = turn

    def ended(self, turn: Turn) -> None:
        """Take note of an end; of the oldest ended turns nothing is kept."""
        self._idle.pop(turn.turn_id, None)
        for old in self._ended.add(turn):
            self.forget(old)

    def forget(self, turn: Turn) -> None:
        """Drop a turn."""
        self._turns.pop(turn.turn_id, None)
        self._idle.pop(turn.turn_id, None)
        self._ended.drop(turn)
        self._by_token.pop(turn.token, None)

    def held(self, token: str) -> Turn | None:
        """Return the turn of a token that was made or checked here before: there is nothing to check again."""
        return self._by_token.get(token)

    def claims_of(self, token: str) -> SurfaceClaims:
        """Return the claims of a token that this process has not seen.

        Raises:
            SurfaceTokenInvalid: not one of this deployment's.
            SurfaceTokenExpired: too old.
        """
        claims = unseal(token, self._keys)
        if claims.turn_id in self._turns:
            raise SurfaceTokenExpired("the turn was bound again with other contents; use the newest token")
        if claims.expires_at <= self._clock.now():
            raise SurfaceTokenExpired("the surface token has expired; bind the turn again")
        return claims

    def of_token(self, token: str, fetched: Mapping[Digest, Card] = NONE_FETCHED) -> Turn:
        """Return the turn a token belongs to, rebuilding it from kept definitions if this process has not seen it.

        Args:
            token: as sent.
            fetched: cards that the token names, beside those in memory.

        Raises:
            SurfaceTokenInvalid: not one of this deployment's.
            SurfaceTokenExpired: too old, or a definition is kept nowhere.
        """
        known = self.held(token)
        if known is not None:
            return known
        claims = self.claims_of(token)
        left = claims.expires_at - self._clock.now()
        # By a clock that was set back, a turn would seem to last longer than any does.
        reap_at = self._clock.monotonic() + min(left, claims.expires_at - claims.bound_at).total_seconds()
        turn = Turn(claims, token, self._surface_of(claims, fetched), reap_at, bound_here=False)
        self.add(turn)
        return turn

    def _surface_of(self, claims: SurfaceClaims, fetched: Mapping[Digest, Card]) -> Surface:
        tools = tuple(surface_tool(slot, self._card(digest, fetched)) for slot, digest in claims.tools)
        cohort = cohort_of(claims)
        candidates = tuple(
            Candidate(slot, name, CandidateVerdict(verdict)) for slot, name, verdict in claims.candidates
        )
        rules = BindingRules(claims.fan_out_cap, claims.max_dispatches)
        return surface_of(self._card(claims.orchestrator_digest, fetched), tools, candidates, cohort, rules)

    def _card(self, digest: Digest, fetched: Mapping[Digest, Card]) -> Card:
        card = fetched.get(digest) or self._definitions.card_by_digest(digest)
        if card is None:
            raise SurfaceTokenExpired(
                "a definition that the turn was bound to is kept nowhere; bind the turn again",
                metadata={"digest": digest},
            )
        return card
