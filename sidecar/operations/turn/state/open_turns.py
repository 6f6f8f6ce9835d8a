"""The open turns of this process, and the look-up of a turn by its surface token.

`bind_turn` adds turns, and `end_turn` moves them to the ended ones, which are kept for some time so that repeated
requests get their answers without a read of the record. All look-ups are by memory only; `find_turn` reads the record
when they find nothing.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from sys import getsizeof
from types import MappingProxyType
from typing import Final, TypeAlias

from sidecar.core.binding.bind import BindingRules, surface_of, surface_tool
from sidecar.core.binding.surface import Candidate, Surface
from sidecar.core.binding.surface_token import SigningKeys, SurfaceClaims, cohort_of, verify_token
from sidecar.core.definitions.cards.card import Card
from sidecar.core.errors import SurfaceTokenExpired
from sidecar.core.identifiers import Digest, TurnId
from sidecar.core.rollout.serving import CandidateVerdict
from sidecar.core.user_tokens import UserToken
from sidecar.operations.ports import Clock, Definitions
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.state.concurrency_limit import ConcurrencyLimit
from sidecar.operations.turn.state.live_dispatch import LiveDispatch
from sidecar.operations.turn.state.turn import Origin, TurnState

Turn: TypeAlias = TurnState[LiveDispatch]

NONE_FETCHED: Final[Mapping[Digest, Card]] = MappingProxyType({})
SLIM_FOR_EACH_WHOLE: Final = 4
"""Number of turns of which only the end is kept, for each turn that is kept whole.

Older turns are only in the record.
"""


def text_bytes(turn: Turn) -> int:
    """Return the size of a turn's answers and requests: most of the memory of a turn with large answers."""
    size = 0
    for dispatch in turn.dispatches.values():
        for call in dispatch.request.calls:
            # Not `len`: one character beyond Latin-1 doubles or quadruples the memory of the whole text.
            size += getsizeof(call.arguments_json)
    for child in turn.children.values():
        if child.outcome is not None:
            answer = child.outcome.answer
            size += getsizeof(answer.narration)
            for each in answer.components:
                size += getsizeof(each.tool_input_json) + getsizeof(each.component_data_json)
    return size


class EndedTurns:
    """The newest ended turns. Older ones keep less data, so that memory is limited.

    Args:
        whole: number of turns that are kept with their dispatches.
        most_bytes: limit for their answers and requests; if it is exceeded, the oldest turns lose theirs.

    Attributes:
        bytes: size of the answers and requests of the turns that are kept whole.
    """

    def __init__(self, whole: int, most_bytes: int) -> None:
        self._most_whole, self._most_bytes = whole, most_bytes
        self.bytes = 0
        self._bytes: dict[TurnId, int] = {}
        # The oldest entries are removed all the time. A plain dictionary keeps the slots of removed entries and walks
        # over them to find its first key.
        self._whole: OrderedDict[TurnId, Turn] = OrderedDict()
        self._slim: OrderedDict[TurnId, Turn] = OrderedDict()

    def add(self, turn: Turn) -> Iterator[Turn]:
        """Keep a turn, unless it is kept already; yield turns that are too old to be kept. Iterate to the end."""
        if turn.turn_id not in self._slim and turn.turn_id not in self._whole:
            turn.put_away()
            self._whole[turn.turn_id] = turn
            self._bytes[turn.turn_id] = size = text_bytes(turn)
            self.bytes += size
        # A single turn may exceed the byte limit alone. It then loses its answers at once, and repeated requests are
        # answered from the record.
        while len(self._whole) > self._most_whole or self.bytes > self._most_bytes:
            turn_id, older = self._whole.popitem(last=False)
            self.bytes -= self._bytes.pop(turn_id)
            older.slim()
            self._slim[turn_id] = older
        while len(self._slim) > self._most_whole * SLIM_FOR_EACH_WHOLE:
            yield self._slim.popitem(last=False)[1]

    def drop(self, turn: Turn) -> None:
        """Remove a turn."""
        if self._whole.pop(turn.turn_id, None) is not None:
            self.bytes -= self._bytes.pop(turn.turn_id)
        self._slim.pop(turn.turn_id, None)


class Turns:
    """The open turns of this process, and for some time the ended ones.

    A turn is idle while no work runs in it. Idle turns make room for new ones, oldest first. Turns in which work runs
    do not: if there are too many of these, new turns are refused.
    """

    def __init__(self, clock: Clock, definitions: Definitions, keys: SigningKeys, rules: DispatchRules) -> None:
        self._clock = clock
        self._definitions = definitions
        self._keys = keys
        self.most_idle = rules.admission.idle_turns
        # The longest time for which a dispatch keeps its turn busy: all of its calls, then the append of their
        # outcomes. It bounds the time after which a refused client is told to retry.
        longest = (rules.join_timeout + rules.record_timeout).total_seconds()
        self.working = ConcurrencyLimit("turns", rules.admission.turns, longest, clock)
        self._turns: dict[TurnId, Turn] = {}
        self._by_token: dict[str, Turn] = {}
        self._user_tokens: dict[TurnId, UserToken] = {}
        self._idle: OrderedDict[TurnId, Turn] = OrderedDict()
        self._ended = EndedTurns(rules.admission.ended_turns, rules.admission.ended_turn_bytes)
        self._give_up: Callable[[Turn], None] = self.forget

    def __iter__(self) -> Iterator[Turn]:
        """Return the turns in order of binding; a copy, so that turns may be added and removed during the iteration."""
        return iter(list(self._turns.values()))

    @property
    def open(self) -> int:
        """The number of turns that have not ended."""
        return self.working.taken + self.idle

    @property
    def idle(self) -> int:
        """The number of turns that have not ended and in which no work runs."""
        return sum(1 for turn in self._idle.values() if turn.ending.closed is None)

    @property
    def ended_bytes(self) -> int:
        """The size of the answers and requests of ended turns."""
        return self._ended.bytes

    def known(self, turn_id: TurnId) -> Turn | None:
        """Return a turn by id, open or ended, if this process holds it."""
        return self._turns.get(turn_id)

    def keep_user_token(self, turn_id: TurnId, token: UserToken) -> None:
        """Keep the token of a turn's user, in memory, until the turn ends."""
        turn = self._turns.get(turn_id)
        if turn is not None and turn.ending.closed is None:
            self._user_tokens[turn_id] = token

    def user_token(self, turn_id: str) -> UserToken | None:
        """Return the token of a turn's user; None: there is none, the turn has ended, or another process has it."""
        return self._user_tokens.get(TurnId(turn_id))

    def gives_up_by(self, give_up: Callable[[Turn], None]) -> None:
        """Set the function that ends idle turns when there are too many. It must not wait."""
        self._give_up = give_up

    def add(self, turn: Turn) -> None:
        """Add a turn; if there are too many idle turns, the oldest ones are ended.

        Raises:
            AdmissionRefused: work runs in as many turns as allowed.
        """
        # Work cannot be interrupted to make room, so a new turn is refused. A turn without work can end.
        self.working.refuse_if_full(
            "turns have work running; come back when some of it is done, or raise dispatch.admission.turns"
        )
        while len(self._idle) >= self.most_idle:
            # Removed here and not by `give_up`, which only starts a task: without this, the loop would find the same
            # turn again.
            oldest = self._idle.popitem(last=False)[1]
            if oldest.ending.closed is None:
                self._give_up(oldest)
        # After the admission above, which may raise: a refused turn must leave no trace.
        self._turns[turn.turn_id] = self._by_token[turn.token] = turn
        self._rest(turn)

    def begins_work(self, turn: Turn) -> None:
        """Note that work in a turn begins; `ends_work` must follow."""
        turn.works += 1
        self._idle.pop(turn.turn_id, None)
        self.working.take(id(turn))

    def ends_work(self, turn: Turn) -> None:
        """Note that work in a turn has ended."""
        # `end_turn` and takeovers also count as work, so a turn is idle only if nothing that belongs to it runs.
        turn.works -= 1
        if not turn.works:
            self.working.give_back(id(turn))  # by id: a turn compares by value, so it has no hash
            self._rest(turn)

    def asked_for(self, turn: Turn) -> None:
        """Mark a turn as just used, so that it is evicted last."""
        if turn.ending.closed is not None:
            self.ended(turn)
        elif turn.turn_id in self._idle:
            self._rest(turn)

    def idle_for(self, seconds: float) -> Turn | None:
        """Return the turn that has been idle longest, if it has been idle for `seconds`."""
        # `_rest` adds at the end, so the first one has been idle longest.
        turn = next((each for each in self._idle.values() if each.ending.closed is None), None)
        return turn if turn is not None and turn.idle_since <= self._clock.monotonic() - seconds else None

    def _rest(self, turn: Turn) -> None:
        """Make an open turn the most recently used idle one."""
        self._idle.pop(turn.turn_id, None)
        # A forgotten turn may still have work that ends; it must not return to the idle ones.
        if turn.ending.closed is None and self._turns.get(turn.turn_id) is turn:
            turn.idle_since = self._clock.monotonic()
            self._idle[turn.turn_id] = turn

    def ended(self, turn: Turn) -> None:
        """Move a turn to the ended ones; the oldest of these are dropped."""
        # First, and before the turn can be dropped: the token of a user must not outlive its turn.
        self._user_tokens.pop(turn.turn_id, None)
        self._idle.pop(turn.turn_id, None)
        for old in self._ended.add(turn):
            self.forget(old)

    def forget(self, turn: Turn) -> None:
        """Drop a turn, open or ended: later requests for it read the record."""
        self._user_tokens.pop(turn.turn_id, None)
        self._turns.pop(turn.turn_id, None)
        self._idle.pop(turn.turn_id, None)
        self._ended.drop(turn)
        self._by_token.pop(turn.token, None)
        if turn.ending.closed is not None:
            turn.slim()  # breaks the cycle between turn and dispatches, so that both are freed at once

    def held(self, token: str) -> Turn | None:
        """Return the turn of a token that this process created or verified before; does not verify it again."""
        # An equal text was signed or verified here before, so the signature need not be verified for each request.
        return self._by_token.get(token)

    def claims_of(self, token: str) -> SurfaceClaims:
        """Return the claims of a token that this process has not seen.

        Raises:
            SurfaceTokenInvalid: not one of this deployment's.
            SurfaceTokenExpired: too old.
        """
        claims = verify_token(token, self._keys)
        # The turn is known, but under another token. Two tokens of one turn would be two surfaces for the same steps.
        if claims.turn_id in self._turns:
            raise SurfaceTokenExpired("the turn was bound again with other contents; use the newest token")
        if claims.expires_at <= self._clock.now():
            raise SurfaceTokenExpired("the surface token has expired; bind the turn again")
        return claims

    def of_token(self, token: str, fetched: Mapping[Digest, Card] = NONE_FETCHED) -> Turn:
        """Return the turn of a token, rebuilt from stored definitions if this process has not seen it.

        Args:
            token: as sent.
            fetched: cards that the token names and that are not in memory.

        Raises:
            SurfaceTokenInvalid: not a token of this deployment.
            SurfaceTokenExpired: the token is too old, or one of its definitions is not stored any more.
        """
        # The caller may have waited for the cards: a concurrent request may have added the turn since its own look-up.
        known = self.held(token)
        if known is not None:
            return known
        claims = self.claims_of(token)
        left = claims.expires_at - self._clock.now()
        # If the clock was set back, `left` exceeds the lifetime of any turn.
        reap_at = self._clock.monotonic() + min(left, claims.expires_at - claims.bound_at).total_seconds()
        turn = Turn(claims, token, self._surface_of(claims, fetched), reap_at, origin=Origin.UNREAD)
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
