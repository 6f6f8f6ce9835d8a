"""Translates requests about recorded turns to plain values, and recorded turns to messages."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final, NamedTuple

import msgspec

from sidecar.core.decoding import from_json
from sidecar.core.dispatching.questions import AnsweredBy
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import ChildOpened
from sidecar.core.executing.stored_record import EpisodeMark, EpisodeRow, StoredDispatch, TurnQuery, TurnRow
from sidecar.core.identifiers import RUN_SIDE, ChildId, DefinitionId, EpisodeId, Principal, Slot, TurnId
from sidecar.operations.record.read_record import EpisodePage, EventBatch, TurnPage
from sidecar.operations.record.turn_views import TurnSummary
from sidecar.rpc.translate import enums
from sidecar.rpc.translate.fields import Fields, timestamp
from sidecar.rpc.translate.frames import fill_outcome
from sidecar.rpc.translate.pages import AskedPage, asked_page
from sidecar.rpc.translate.scores import score_message
from sidecar.rpc.translate.turn_ends import routing_message
from subagents.dispatch.v1 import outcome_pb2
from subagents.errors.v1 import error_reason_pb2
from subagents.history.v1 import history_pb2 as pb
from subagents.history.v1 import record_pb2

MOST_CHILDREN_NAMED: Final = 64
"""The most children that one GetTurn may name."""
MOST_POSITIONS: Final = 1000
"""The most children of which a watcher may state what it has seen; a turn has fewer."""
MOST_SEQUENCE: Final = 2**53
"""The largest sequence: JSON clients read numbers as floats, which are exact up to this value."""
LONGEST_SLOT: Final = 60  # characters
STATE_NAMES: Final = enums.names_of(record_pb2.TurnState)
OUTCOME_NAMES: Final = enums.names_of(outcome_pb2.Outcome)
REASON_NAMES: Final = enums.names_of(error_reason_pb2.ErrorReason)


class TurnPlace(NamedTuple):
    """The position of a turn in a list."""

    began_at: Annotated[datetime, msgspec.Meta(tz=True)]
    turn_id: Annotated[str, msgspec.Meta(pattern=rf"\A{RUN_SIDE.pattern}")]


class EpisodePlace(NamedTuple):
    """The position of an episode in a list."""

    last_at: Annotated[datetime, msgspec.Meta(tz=True)]
    episode_id: Annotated[str, msgspec.Meta(pattern=rf"\A{RUN_SIDE.pattern}")]
    principal: Annotated[str, msgspec.Meta(pattern="^[^\\x00]*$", max_length=256)]


class _Proof(msgspec.Struct):
    """The part of a turn's claims that says whether a user token proved the principal."""

    verified: bool = False


# --- requests


def list_turns(message: pb.ListTurnsRequest) -> tuple[TurnQuery, AskedPage[TurnPlace]]:
    """Return the query and the requested page. Raises `InvalidRequest`."""
    fields = Fields("ListTurnsRequest")
    episode_id = fields.run_side_id("episode_id", message.episode_id) if message.episode_id else None
    slot = fields.one_line("sub_agent_id", message.sub_agent_id, LONGEST_SLOT) if message.sub_agent_id else None
    definition = fields.definition_name("definition_id", message.definition_id) if message.definition_id else None
    # Before the query, which begins at the place in the page token.
    page = asked_page(fields, message, TurnPlace)
    query = TurnQuery(
        episode_id=None if episode_id is None else EpisodeId(episode_id),
        slot=None if slot is None else Slot(slot),
        state=fields.member("state", message.state, enums.TURN_STATES, STATE_NAMES),
        principal=fields.principal("principal", message.principal) if message.principal else None,
        outcome=fields.member("outcome", message.outcome, enums.OUTCOMES_ASKED, OUTCOME_NAMES),
        definition=DefinitionId(definition) if definition else None,
        reason=fields.member("reason", message.reason, enums.REASONS_ASKED, REASON_NAMES),
        since=fields.moment("since", message.since) if message.HasField("since") else None,
        until=fields.moment("until", message.until) if message.HasField("until") else None,
        # Newest turns first, so the next page is before the last row of this one. The id separates turns of the same
        # time.
        before=page.after and (page.after.began_at, TurnId(page.after.turn_id)),
        limit=page.size,
    )
    fields.check()
    return query, page


def get_turn(message: pb.GetTurnRequest) -> tuple[TurnId, list[ChildId]]:
    """Return the turn, and the requested children; empty: all. Raises `InvalidRequest`."""
    fields = Fields("GetTurnRequest")
    turn_id = TurnId(fields.run_side_id("turn_id", message.turn_id))
    if len(message.child_ids) > MOST_CHILDREN_NAMED:
        fields.refuse("child_ids", f"are over {MOST_CHILDREN_NAMED}; leave them out for all children")
    # Cut also if it was refused: a million ids must not give a million problems.
    numbered = enumerate(message.child_ids[:MOST_CHILDREN_NAMED])
    child_ids = [ChildId(fields.run_side_id(f"child_ids[{place}]", each)) for place, each in numbered]
    fields.check()
    return turn_id, child_ids


def export_replay(message: pb.ExportReplayRequest) -> TurnId:
    """Return the turn. Raises `InvalidRequest`."""
    fields = Fields("ExportReplayRequest")
    turn_id = TurnId(fields.run_side_id("turn_id", message.turn_id))
    fields.check()
    return turn_id


def watch_events(message: pb.WatchEventsRequest) -> tuple[TurnId, Mapping[ChildId, int]]:
    """Return the turn, and the events that the client has seen. Raises `InvalidRequest`."""
    fields = Fields("WatchEventsRequest")
    turn_id = TurnId(fields.run_side_id("turn_id", message.turn_id))
    # Refused before the loop, which also stops at the limit: the time of a request must be bounded.
    if len(message.after) > MOST_POSITIONS:
        fields.refuse("after", f"has over {MOST_POSITIONS} children")
    after: dict[ChildId, int] = {}
    for place, seen in enumerate(message.after[:MOST_POSITIONS]):
        child_id = ChildId(fields.run_side_id(f"after[{place}].child_id", seen.child_id))
        # Two positions of one child contradict each other.
        if child_id in after:
            fields.refuse(f"after[{place}].child_id", "is named twice")
        after[child_id] = fields.count(f"after[{place}].sequence", seen.sequence, MOST_SEQUENCE)
    fields.check()
    return turn_id, after


def list_episodes(message: pb.ListEpisodesRequest) -> tuple[EpisodeMark | None, AskedPage[EpisodePlace]]:
    """Return the last row of the previous page (None: no page) and the requested page. Raises `InvalidRequest`."""
    fields = Fields("ListEpisodesRequest")
    page = asked_page(fields, message, EpisodePlace)
    fields.check()
    after = page.after
    return after and EpisodeMark(after.last_at, EpisodeId(after.episode_id), Principal(after.principal)), page


# --- answers


def page_message(page: TurnPage, asked: AskedPage[TurnPlace]) -> pb.ListTurnsResponse:
    """Return the answer to ListTurns."""
    token = asked.token(page.next_before)
    as_of = None if page.as_of is None else timestamp(page.as_of)
    return pb.ListTurnsResponse(turns=[_row(row) for row in page.rows], next_page_token=token, as_of=as_of)


def turn_message(seen: TurnSummary) -> pb.GetTurnResponse:
    """Return the answer to GetTurn."""
    stored, ended = seen.stored, seen.stored.ended
    return pb.GetTurnResponse(
        turn=_row(seen.row),
        dispatches=[_dispatch(each) for each in stored.dispatches],
        children=[_child(child.opened, child.events, child.answered_by) for child in stored.children],
        routing_decision=None if stored.routing is None else routing_message(stored.routing),
        narration=ended.narration if ended else "",
        close_reason=enums.TURN_CLOSE_REASON[ended.close_reason if ended else ""],
        texts_left_out=seen.texts_left_out,
        events_left_out=seen.events_left_out,
        scores=map(score_message, stored.scores),
    )


def batch_message(batch: EventBatch) -> pb.WatchEventsResponse:
    """Return one message of WatchEvents."""
    return pb.WatchEventsResponse(
        # Without events: these follow once, in `events`.
        children=[_child(opened, ()) for opened in batch.children],
        events=[_event(event) for event in batch.events],
        ended=batch.ended,
    )


def episodes_message(found: EpisodePage, asked: AskedPage[EpisodePlace]) -> pb.ListEpisodesResponse:
    """Return the answer to ListEpisodes."""
    as_of = None if found.as_of is None else timestamp(found.as_of)
    token = asked.token(found.next_before)
    return pb.ListEpisodesResponse(episodes=[_episode(row) for row in found.rows], as_of=as_of, next_page_token=token)


def _row(row: TurnRow) -> record_pb2.TurnRow:
    return record_pb2.TurnRow(
        turn_id=row.turn_id,
        episode_id=row.episode_id,
        principal=row.principal,
        state=enums.TURN_STATE[row.state],
        started_at=timestamp(row.began_at),
        ended_at=None if row.ended_at is None else timestamp(row.ended_at),
        sub_agent_ids=row.slots,
        child_count=row.children,
        failed_child_count=row.failed,
    )


def _dispatch(dispatch: StoredDispatch) -> record_pb2.RecordedDispatch:
    opened = dispatch.opened
    message = record_pb2.RecordedDispatch(
        dispatch_id=opened.dispatch_id,
        opened_at=timestamp(opened.opened_at),
        settle_by=timestamp(opened.settle_by),
        call_count=opened.calls,
        owner_instance_id=dispatch.owner,
        takeover_count=dispatch.epoch,
        owner_alive=dispatch.owner_alive,
        principal_source=_principal_source(opened.claims_json),
    )
    for outcome in dispatch.outcomes:
        fill_outcome(message.outcomes.add(), outcome)
    return message


def _principal_source(claims_json: str) -> record_pb2.PrincipalSource:
    """Return what vouched for the user: a user token, or only the consumer-agent, also if there are no claims."""
    # Records of sidecars without verified principals have no claims.
    verified = bool(claims_json) and from_json(claims_json, _Proof).verified
    proven = record_pb2.PRINCIPAL_SOURCE_USER_TOKEN
    return proven if verified else record_pb2.PRINCIPAL_SOURCE_CONSUMER_AGENT


def _child(
    opened: ChildOpened, events: tuple[ChildEvent, ...], answered_by: AnsweredBy | None = None
) -> record_pb2.RecordedChild:
    return record_pb2.RecordedChild(
        child_id=opened.child_id,
        dispatch_id=opened.dispatch_id,
        call_id=opened.call_id,
        sub_agent_id=opened.slot,
        emission_index=opened.step_idx,
        parent_child_id=opened.parent_child_id or "",
        opened_at=timestamp(opened.opened_at),
        contract_json=opened.context_json,
        events=[_event(event) for event in events],
        answered_in_turn_id="" if answered_by is None else answered_by.turn_id,
    )


def _event(event: ChildEvent) -> record_pb2.ChildEvent:
    return record_pb2.ChildEvent(
        event_id=event.event_id,
        child_id=event.child_id,
        sequence=event.sequence,
        name=event.name,
        occurred_at=timestamp(event.time),
        actor=enums.EVENT_ACTOR[event.actor],
        summary=event.summary,
        details_json=event.details_json,
        previous_link=event.previous_link,
        link=event.link,
    )


def _episode(row: EpisodeRow) -> record_pb2.EpisodeRow:
    return record_pb2.EpisodeRow(
        episode_id=row.episode_id,
        principal=row.principal,
        turn_count=row.turns,
        first_turn_at=timestamp(row.first_at),
        last_turn_at=timestamp(row.last_at),
        sub_agent_ids=row.slots,
    )
