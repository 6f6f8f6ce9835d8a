"""The claims of a turn in the form of facts: column by column, without the turn's id and without the user's data.

The claims are the contents of the surface token. The first fact of a turn stores them, so that another sidecar can
continue the turn. What names the user is kept apart, among the texts that an erasure removes.
"""

from datetime import datetime
from enum import IntEnum, unique
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.identifiers import DefinitionId, Digest, EpisodeId, Principal, Slot, TurnId
from sidecar.core.journal.opening.part import Digests, Part, packed, unpacked
from sidecar.core.rollout.serving import CandidateVerdict


@unique
class Verdict(IntEnum):
    """A `CandidateVerdict` as a number. A number is never reused for another verdict: stored facts contain it."""

    CHOSEN = 0
    FLAG_OFF = 1
    FLAG_STALE = 2
    COHORT = 3
    RAMP = 4
    STATE = 5
    DEPRECATED = 6
    KILLED = 7
    NOT_LISTED = 8


# By member name: the import fails if a stored number has no `CandidateVerdict` any more.
NAMES: Final = MappingProxyType({verdict: CandidateVerdict[verdict.name].value for verdict in Verdict})
CODES: Final = MappingProxyType({name: verdict for verdict, name in NAMES.items()})
CHOSEN: Final = CandidateVerdict.CHOSEN.value
ITS_SLOT: Final = 0
"""Says that the definition's id equals the slot. Not None, which is stored for a candidate without a definition."""
VERIFIED: Final = "+user_token"
"""Suffix of `source`: a user token proved the principal."""


class BareClaims(Part, frozen=True):
    """`SurfaceClaims` in columns: the fields below replace its tools and candidates.

    Attributes:
        source: followed by `VERIFIED` if a user token proved the principal.
        digests: of the orchestrator's card, then of the tools' cards.
        slots: of the candidates.
        verdicts: on the candidates. A verdict without a number is stored as text. Empty: each candidate was chosen.
        definitions: definition ids of the candidates; `ITS_SLOT` if the id equals the slot. Empty: all ids do.
        tools: slots of the tools; None: those of the chosen candidates, in the same order.
    """

    episode_id: EpisodeId
    source: str
    date: str
    digests: Digests
    orchestrator_id: str
    versions: tuple[str, str, str]
    flags: tuple[str, ...]
    arm: str
    previous: tuple[Slot, ...] | None
    fan_out_cap: int
    max_dispatches: int
    bound_at: datetime
    expires_at: datetime
    slots: tuple[Slot, ...]
    verdicts: tuple[Verdict | str, ...] = ()
    definitions: tuple[DefinitionId | Literal[0] | None, ...] = ()
    tools: tuple[Slot, ...] | None = None


class UserTexts(Part, frozen=True):
    """The part of the claims that names the user."""

    principal: str = ""
    locale: str | None = None
    location: str | None = None


class UnnamedClaims(msgspec.Struct, frozen=True):
    """Claims, and separately the part that names the user."""

    claims: BareClaims
    user: UserTexts


def unnamed(claims: SurfaceClaims) -> UnnamedClaims:
    """Return claims in the two parts of a fact. The turn's id is omitted, because the fact has it."""
    # Columns instead of rows: a column of usual values is then left out as a whole.
    slots, definitions, verdicts = zip(*claims.candidates, strict=True) if claims.candidates else ((), (), ())
    tools, digests = zip(*claims.tools, strict=True) if claims.tools else ((), ())
    all_chosen = verdicts.count(CHOSEN) == len(verdicts)
    bare = BareClaims(
        episode_id=claims.episode_id,
        # In the source and not in a field of its own: sidecars of an older version refuse facts with a field they do
        # not know.
        source=f"{claims.source}{VERIFIED}" if claims.verified else claims.source,
        date=claims.date,
        digests=packed((claims.orchestrator_digest, *digests)),
        orchestrator_id=claims.orchestrator_id,
        versions=claims.versions,
        flags=claims.flags,
        arm=claims.arm,
        previous=claims.previous,
        fan_out_cap=claims.fan_out_cap,
        max_dispatches=claims.max_dispatches,
        bound_at=claims.bound_at,
        expires_at=claims.expires_at,
        slots=slots,
        # A verdict that a newer version introduced has no number here; as text it can still be stored and returned.
        verdicts=() if all_chosen else tuple([CODES.get(verdict, verdict) for verdict in verdicts]),
        definitions=() if definitions == slots else _unless_slots(definitions, slots),
        tools=None if tools == (slots if all_chosen else _chosen(slots, verdicts)) else tools,
    )
    # Only these three name the user; an erasure removes them with the texts of the fact.
    return UnnamedClaims(bare, UserTexts(claims.principal, claims.locale, claims.location))


def named(parts: UnnamedClaims, turn_id: TurnId) -> SurfaceClaims:
    """Return the claims that `unnamed` has split. Raises `ValueError` if the columns have different lengths."""
    bare, user, slots = parts.claims, parts.user, parts.claims.slots
    # An empty column means the usual value for every candidate; see `BareClaims`.
    verdicts = _verdicts(bare.verdicts) if bare.verdicts else (CHOSEN,) * len(slots)
    definitions = _definitions(bare.definitions, slots) if bare.definitions else map(DefinitionId, slots)
    tools = _chosen(slots, verdicts) if bare.tools is None else bare.tools
    # All digests in one column: 32 bytes each, instead of 71 characters.
    orchestrator_digest, *digests = map(Digest, unpacked(bare.digests))
    return SurfaceClaims(
        turn_id=turn_id,
        episode_id=bare.episode_id,
        principal=Principal(user.principal),
        source=bare.source.removesuffix(VERIFIED),
        locale=user.locale,
        location=user.location,
        date=bare.date,
        orchestrator_digest=orchestrator_digest,
        orchestrator_id=bare.orchestrator_id,
        tools=tuple(zip(tools, digests, strict=True)),
        candidates=tuple(zip(slots, definitions, verdicts, strict=True)),
        versions=bare.versions,
        flags=bare.flags,
        arm=bare.arm,
        previous=bare.previous,
        fan_out_cap=bare.fan_out_cap,
        max_dispatches=bare.max_dispatches,
        bound_at=bare.bound_at,
        expires_at=bare.expires_at,
        verified=bare.source.endswith(VERIFIED),
    )


def _chosen(slots: tuple[Slot, ...], verdicts: tuple[str, ...]) -> tuple[Slot, ...]:
    return tuple([slot for slot, verdict in zip(slots, verdicts, strict=True) if verdict == CHOSEN])


def _verdicts(stored: tuple[Verdict | str, ...]) -> tuple[str, ...]:
    return tuple([NAMES[each] if isinstance(each, Verdict) else each for each in stored])


def _unless_slots(
    definitions: tuple[str | None, ...], slots: tuple[str, ...]
) -> tuple[DefinitionId | Literal[0] | None, ...]:
    pairs = zip(definitions, slots, strict=True)
    return tuple([ITS_SLOT if id_ == slot else None if id_ is None else DefinitionId(id_) for id_, slot in pairs])


def _definitions(
    stored: tuple[DefinitionId | Literal[0] | None, ...], slots: tuple[Slot, ...]
) -> tuple[DefinitionId | None, ...]:
    pairs = zip(stored, slots, strict=True)
    return tuple([DefinitionId(slot) if isinstance(each, int) else each for each, slot in pairs])
