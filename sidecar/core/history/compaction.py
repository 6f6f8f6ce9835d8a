"""When an episode must be compacted, and which turns a summary may replace. Source: PC1-FR-11, TN-15.

The sidecar only reports, in the answer to a bind, that it is time; the orchestrator's own model writes the summary.
"""

from collections.abc import Sequence
from enum import StrEnum, unique

from msgspec import Struct

from sidecar.core.definitions.prompt_size import estimated_tokens
from sidecar.core.errors import CompactionNotDue, FieldProblem, InvalidRequest, RecentTurnsIntact, SummaryOutdated
from sidecar.core.history.records import EpisodeContents, EpisodeSize, Summary, TurnHistory
from sidecar.core.identifiers import TurnId


@unique
class CompactionDue(StrEnum):
    """Whether the orchestrator should compact before this turn. UNKNOWN: the size could not be read in time."""

    DUE = "due"
    NOT_DUE = "not_due"
    UNKNOWN = "unknown"


class CompactionRules(Struct, frozen=True):
    """The operator's settings. The thresholds have no default, because they depend on the traffic (PC1-NFR-5).

    Attributes:
        above_tokens: an episode with more tokens is due; None: tokens do not count.
        above_turns: an episode with more turns after its summary is due; None: turns do not count.
        recent_turns: number of newest turns that no summary may replace. Source: PC1-FR-11c.
    """

    above_tokens: int | None = None
    above_turns: int | None = None
    recent_turns: int = 5


class NewSummary(Struct, frozen=True):
    """A summary to write.

    Attributes:
        expected_revision: of the summary that it replaces; 0: there is none.
    """

    text: str
    up_to_turn_id: TurnId
    expected_revision: int


def is_due(size: EpisodeSize, rules: CompactionRules) -> bool:
    """Return whether an episode exceeds a threshold and has turns to compact besides its recent ones."""
    # Even above a threshold: all of its turns are recent ones, which no summary may replace.
    if size.turns <= rules.recent_turns:
        return False
    by_tokens = rules.above_tokens is not None and size.tokens > rules.above_tokens
    return by_tokens or (rules.above_turns is not None and size.turns > rules.above_turns)


def due_of(size: EpisodeSize | None, rules: CompactionRules) -> CompactionDue:
    """Return the signal for an episode; `size` None: unknown."""
    if size is None:
        return CompactionDue.UNKNOWN
    return CompactionDue.DUE if is_due(size, rules) else CompactionDue.NOT_DUE


def tokens_of(turn: TurnHistory) -> int:
    """Return the estimated tokens that a turn adds to the orchestrator's context: user message and narration."""
    return estimated_tokens(turn.user_message) + estimated_tokens(turn.narration)


def after_summary(turns: Sequence[TurnHistory], summary: Summary | None) -> Sequence[TurnHistory]:
    """Return the turns that the summary does not replace; all turns if the newest summarised turn no longer exists."""
    if summary is not None:
        for place, turn in enumerate(turns):
            if turn.turn_id == summary.up_to_turn_id:
                return turns[place + 1 :]
    # The summarised turn was removed, e.g. by an erasure. Without its place, the whole conversation is shown rather
    # than less.
    return turns


def size_of(contents: EpisodeContents) -> EpisodeSize:
    """Return the size of an episode for a model."""
    turns = after_summary(contents.turns, contents.summary)
    # The summary is part of the context that the thresholds limit.
    summary = 0 if contents.summary is None else estimated_tokens(contents.summary.text)
    return EpisodeSize(len(turns), summary + sum(tokens_of(turn) for turn in turns))


def size_after(size: EpisodeSize, turn: TurnHistory) -> EpisodeSize:
    """Return the size with one more turn."""
    return EpisodeSize(size.turns + 1, size.tokens + tokens_of(turn))


def is_repeated(summary: Summary | None, new: NewSummary) -> bool:
    """Return whether `new` equals the stored summary: a request whose answer was lost."""
    # The revision is compared, too: the same text for a later revision is another write.
    return summary is not None and (summary.revision - 1, summary.text, summary.up_to_turn_id) == (
        new.expected_revision,
        new.text,
        new.up_to_turn_id,
    )


def check_summary(contents: EpisodeContents, new: NewSummary, rules: CompactionRules) -> None:
    """Check that a summary may replace the present one.

    Raises:
        SummaryOutdated: another summary was written in the meantime.
        InvalidRequest: its newest turn is not one of those after the present summary.
        CompactionNotDue: the episode does not exceed a threshold. Source: PC1-FR-11a.
        RecentTurnsIntact: it would replace one of the most recent turns. Source: PC1-FR-11c.
    """
    present = contents.summary.revision if contents.summary else 0
    # First, because all other checks would judge the new summary against contents that its author has not read.
    if present != new.expected_revision:
        raise outdated(present)
    turns = [turn.turn_id for turn in after_summary(contents.turns, contents.summary)]
    if new.up_to_turn_id not in turns:
        what = "is not a turn of this episode that the present summary leaves; read the episode again"
        raise InvalidRequest(
            "the summary cannot be written: up_to_turn_id " + what, fields=[FieldProblem("up_to_turn_id", what)]
        )
    if not is_due(size_of(contents), rules):
        raise CompactionNotDue("the episode is not over a compaction threshold; write a summary once it is due")
    # The number of turns that stay after the newest summarised one.
    if len(turns) - 1 - turns.index(new.up_to_turn_id) < rules.recent_turns:
        raise RecentTurnsIntact(
            f"the {rules.recent_turns} most recent turns stay as they are; let the summary end before them",
            metadata={"recent_turns": str(rules.recent_turns)},
        )


def outdated(present: int) -> SummaryOutdated:
    """Return the error for a summary that does not replace the present one."""
    return SummaryOutdated(
        "another summary was written meanwhile; read the episode again", metadata={"revision": str(present)}
    )
