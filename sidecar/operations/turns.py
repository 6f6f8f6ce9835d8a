"""The turns that are open here, and how one is found again from its surface token."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from sidecar.core.binding.bind import BindingRules, surface_of, surface_tool
from sidecar.core.binding.surface import Candidate, CandidateVerdict, Surface
from sidecar.core.binding.surface_token import SigningKeys, SurfaceClaims, unseal
from sidecar.core.definitions.card import Card
from sidecar.core.definitions.prompt import DynamicContext, suffix_of
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.errors import AdmissionRefused, SubagentsError, SurfaceTokenExpired, TurnEnded
from sidecar.core.executing.abandoned import cohort_of
from sidecar.core.executing.records import CallSettled, Record
from sidecar.core.history.compaction import CompactionDue
from sidecar.core.identifiers import CallId, ChildId, Digest, DispatchId, TurnId
from sidecar.operations.children import Child
from sidecar.operations.endings import Ending
from sidecar.operations.ports import Clock, Definitions
from sidecar.operations.rules import AdmissionRules
from sidecar.operations.turn_ends import TurnClosed
from sidecar.operations.turn_lanes import TurnLanes

if TYPE_CHECKING:
    from sidecar.operations.live_dispatch import LiveDispatch

NONE_FETCHED: Final[Mapping[Digest, Card]] = MappingProxyType({})


def dynamic_context_of(claims: SurfaceClaims) -> DynamicContext:
    """Return the four dynamic values of a turn, the same for the orchestrator and its sub-agents."""
    return DynamicContext(
        date=datetime.fromisoformat(claims.date).date(),
        location=claims.location,
        user_id=claims.principal,
        locale=claims.locale,
    )


@dataclass(slots=True)
class Turn:
    """One open turn.

    Attributes:
        claims, token: as signed at bind.
        compaction_due: what bind said; the same each time it is repeated here.
        next_step: emission index of the next call.
        reap_at: of the loop's clock.
        uncertain: the store did not confirm something that it may have even so: it is read before the turn is ended.
        closing: set while and after the turn is being ended.
        closing_request: what it is ended with; None by the reaper.
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
    closing: Ending[TurnClosed | SubagentsError] | None = None
    closing_request: object = None
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
        self.prompt_suffix = suffix_of(dynamic_context_of(self.claims))

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
    """The open turns of this process, and for a while the ended ones."""

    def __init__(self, clock: Clock, definitions: Definitions, keys: SigningKeys, admission: AdmissionRules) -> None:
        """Begin with none."""
        self._clock = clock
        self._definitions = definitions
        self._keys = keys
        self._most = admission.turns
        self._kept_whole = admission.ended_turns
        self._ended: deque[Turn] = deque()
        self._turns: dict[TurnId, Turn] = {}
        self._by_token: dict[str, Turn] = {}
        self._maybe_open: dict[TurnId, Turn] = {}

    def __iter__(self) -> Iterator[Turn]:
        """Return the turns in order of binding; a copy, so that turns may come and go meanwhile."""
        return iter(list(self._turns.values()))

    @property
    def open(self) -> int:
        """How many have not ended."""
        self._maybe_open = {turn_id: turn for turn_id, turn in self._maybe_open.items() if turn.closed is None}
        return len(self._maybe_open)

    def known(self, turn_id: TurnId) -> Turn | None:
        """Return a turn by id, open or ended, if it is kept here."""
        return self._turns.get(turn_id)

    def add(self, turn: Turn) -> None:
        """Keep a turn. Raises `AdmissionRefused` if there are as many as allowed."""
        # Counting looks at every turn, so it waits until there can be too many.
        if len(self._maybe_open) >= self._most and self.open >= self._most:
            raise AdmissionRefused(
                f"{self._most} turns are open already; end some, or raise dispatch.admission.turns",
                metadata={"limit": str(self._most)},
                retry_after=timedelta(seconds=1),
            )
        self._turns[turn.turn_id] = self._maybe_open[turn.turn_id] = self._by_token[turn.token] = turn

    def ended(self, turn: Turn) -> None:
        """Take note of an end; what is kept of the oldest ended turns is little, so that memory does not grow."""
        self._ended.append(turn)
        while len(self._ended) > self._kept_whole:
            self._ended.popleft().slim()

    def forget(self, turn: Turn) -> None:
        """Drop a turn."""
        self._turns.pop(turn.turn_id, None)
        self._maybe_open.pop(turn.turn_id, None)
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
            Candidate(slot, definition_id, CandidateVerdict(verdict))
            for slot, definition_id, verdict in claims.candidates
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
