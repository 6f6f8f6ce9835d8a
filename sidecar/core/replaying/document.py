"""Everything that a replay of one turn needs, as one JSON document, so that it can be replayed elsewhere and later.

`ExportReplay` writes it and `sidecar replay` reads it. It contains texts of the user, so it needs the same care as
the record.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.decoding import DecodeError, from_json
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.executing.contract import contract_from_json
from sidecar.core.executing.records import AttemptRecorded, ChildOpened, DispatchOpened
from sidecar.core.executing.stored_record import StoredTurn
from sidecar.core.identifiers import CallId, Digest, DispatchId, TurnId
from sidecar.core.replaying.frames import RecordedAttempt, attempt_from_json

VERSION: Final = 1


class CannotReplay(Exception):
    """A turn cannot be replayed; the text has the cause and the remedy."""


class ReplayDocument(msgspec.Struct, frozen=True):
    """One turn.

    Attributes:
        dispatches: in order of opening.
        children: those that the orchestrator called, in order of opening.
        attempts: the runners' messages.
        recorded_outcomes: for each dispatch, the outcomes that the consumer-agent received. The outcomes of the replay
            are compared with them; refusals that the replay cannot compute are taken from them. Named `told` in the
            JSON.
    """

    turn_id: TurnId
    dispatches: tuple[DispatchOpened, ...]
    children: tuple[ChildOpened, ...]
    attempts: tuple[AttemptRecorded, ...]
    recorded_outcomes: dict[DispatchId, tuple[CallOutcome, ...]] = msgspec.field(name="told")
    version: int = VERSION

    def claims(self) -> SurfaceClaims:
        """Return the claims of the turn. Raises `CannotReplay`."""
        if not self.dispatches:
            raise CannotReplay(
                f"turn {self.turn_id} has no dispatch, so there is nothing to replay; export another turn"
            )
        try:
            return from_json(self.dispatches[0].claims_json, SurfaceClaims)
        except DecodeError as error:
            raise CannotReplay(f"what turn {self.turn_id} was bound to cannot be read: {error}") from None


RecordedCall = tuple[DispatchId, CallId]
Recorded = Mapping[RecordedCall, tuple[RecordedAttempt, ...]]
"""The attempts of each call, in the order of their numbers.

A call that was stopped before its first attempt has one entry without frames.
"""


def document_of(turn: StoredTurn, attempts: tuple[AttemptRecorded, ...]) -> ReplayDocument:
    """Return the document of a recorded turn."""
    dispatches = tuple(each.opened for each in turn.dispatches)
    # The outcomes that the parent received: where a later revision replaced the first outcome, only the later one.
    outcomes = {each.opened.dispatch_id: tuple(each.outcomes) for each in turn.dispatches}
    # Delegated children are not replayed: the recording of the delegating child has their results.
    children = tuple(each.opened for each in turn.children if each.opened.parent_child_id is None)
    return ReplayDocument(turn.turn_id, dispatches, children, attempts, outcomes)


def document_to_json(document: ReplayDocument) -> bytes:
    """Return the document as UTF-8 JSON."""
    return msgspec.json.encode(document)


def document_from_json(raw: bytes) -> ReplayDocument:
    """Read a document. Raises `CannotReplay` if it is invalid, or of another version."""
    try:
        document = from_json(raw, ReplayDocument)
    except DecodeError as error:
        raise CannotReplay(f"this is no exported turn: {error}") from None
    if document.version != VERSION:
        raise CannotReplay(f"the export is of version {document.version}; this sidecar reads version {VERSION}")
    return document


def recorded_of(document: ReplayDocument) -> Recorded:
    """Return the attempts of each call, decoded and complete. Raises `CannotReplay`."""
    if not document.dispatches:
        raise CannotReplay(f"turn {document.turn_id} called no sub-agent: there is nothing to replay")
    numbered: dict[str, dict[int, AttemptRecorded]] = {}
    for attempt in document.attempts:
        # By number: a takeover records the attempts of a child in several facts.
        numbered.setdefault(attempt.child_id, {})[attempt.number] = attempt
    return {
        (child.dispatch_id, child.call_id): _attempts_of(child, numbered.get(child.child_id, {}))
        for child in document.children
    }


def commits_of(document: ReplayDocument) -> Mapping[Digest, tuple[str, str]]:
    """Return definition id and commit of each digest in the turn's contracts."""
    # Of the contracts and not of the configuration: the definitions may have changed since the turn.
    contracts = [contract_from_json(child.context_json) for child in document.children]
    return {Digest(each.definition_digest): (each.definition_id, each.definition_commit) for each in contracts}


def _attempts_of(child: ChildOpened, recorded: Mapping[int, AttemptRecorded]) -> tuple[RecordedAttempt, ...]:
    where = f"call {child.call_id} ({child.slot})"
    # Number 0: the call was stopped before its first attempt. Otherwise a gap means that an attempt was not recorded.
    expected = [0] if 0 in recorded else list(range(1, len(recorded) + 1))
    if not recorded or sorted(recorded) != expected:
        raise CannotReplay(
            f"{where} has no complete recording: record.frames was off, the recording is too old and was removed, or "
            "the sidecar was lost while the call ran"
        )
    found = []
    for number in expected:
        try:
            attempt = attempt_from_json(recorded[number].frames_json)
        except ValueError as error:
            raise CannotReplay(f"{where}, attempt {number}: {error}") from None
        # A replay with some of the inputs would differ from the turn, and the difference would say nothing.
        if attempt.incomplete:
            raise CannotReplay(f"{where}, attempt {number}: the recording was cut: {attempt.incomplete}")
        # A breaker or a budget depends on all calls of that time, which the document does not contain.
        if attempt.refused:
            raise CannotReplay(
                f"{where}: no further attempt was made because of the {attempt.refused.replace('_', ' ')}, which "
                "depends on what other turns did at that time"
            )
        found.append(attempt)
    return tuple(found)
