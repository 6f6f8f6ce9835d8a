"""Turns in which every text is a user's own, to be looked for in whatever is left after an erasure."""

import msgspec

from sidecar.core.dispatching.outcomes import Answer, Component
from sidecar.core.executing.records import AttemptRecorded, Record
from sidecar.core.identifiers import Principal
from sidecar.core.journal.opening.requests import fingerprint_of
from sidecar.core.replaying.frames import Narration, RecordedAttempt, attempt_to_json
from tests.support.record_builders import (
    a_child,
    a_dispatch,
    a_life,
    a_settling,
    an_attempt,
    an_end,
    an_outcome,
    the_claims,
)

ADA, BOB = Principal("ada-lovelace-1815"), Principal("bob-1")
WORDS = ("prompt", "before", "summary", "answer", "component", "frame", "said", "asked", "town")


def words_of(principal: Principal) -> list[bytes]:
    """Return what must not be left of a user."""
    return [principal.encode(), *(f"{principal}-{word}".encode() for word in WORDS)]


def a_turn_of(principal: Principal, turn: str, at: float = 0, *, ended: bool = True) -> list[Record]:
    """Return a turn in which every text is the user's own."""

    def word(name: str) -> str:
        assert name in WORDS
        return f"{principal}-{name}"

    claims = the_claims(turn, at, principal=principal, location=word("town"))
    opened = a_dispatch(turn, at=at, claims=claims)
    request = opened.request_json.replace("They like boots.", word("before")).replace("What is new?", word("prompt"))
    opened = msgspec.structs.replace(opened, request_json=request, fingerprint=fingerprint_of(request))
    child = a_child(opened)
    child = msgspec.structs.replace(child, context_json=child.context_json.replace("\\u0000", word("summary")))
    answer = Answer(word("answer"), (Component("list", "{}", f'{{"w":"{word("component")}"}}'),))
    frames = attempt_to_json(RecordedAttempt(frames=(Narration(5, word("frame")),)))
    attempt: AttemptRecorded = msgspec.structs.replace(an_attempt(child), frames_json=frames)
    settled = a_settling(opened, an_outcome(turn, answer=answer), at + 2)
    records: list[Record] = [opened, child, *a_life(child, at + 1), attempt, settled]
    if not ended:
        return [opened, child, *a_life(child, at + 1)[:3]]
    return [*records, *an_end(records, turn, at + 3, narration=word("said"), user_message=word("asked"))]
