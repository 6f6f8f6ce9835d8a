"""The operator's settings for dispatching, as plain values for the operations.

`composition` builds them once from the settings, so an operation may keep a value for as long as it lives.
"""

from datetime import timedelta

from msgspec import Struct, field

from sidecar.core.binding.bind import BindingRules
from sidecar.core.dispatching.cost_budget import CostBudgets
from sidecar.core.dispatching.result_checks import ResultLimits
from sidecar.core.envelopes.limits import EnvelopeLimits
from sidecar.core.envelopes.signatures import SignatureRules
from sidecar.core.executing.retries import BreakerRules, RetryRules
from sidecar.core.history.compaction import CompactionRules
from sidecar.core.status_events.policy import Vocabulary


class AdmissionRules(Struct, frozen=True):
    """Limits on concurrent work.

    Attributes:
        turns: the most turns in which work runs.
        dispatches: the most running dispatches.
        min_remaining_time: a dispatch with less time than this is refused, because it could hardly succeed.
        ended_turns: number of ended turns whose dispatches can be resumed from memory. Of older ones, up to four times
            as many, only the end is kept, which answers a repeated `EndTurn`.
        idle_turns: the most open turns in which no work runs; beyond that the oldest are ended.
        ended_turn_bytes: the most memory, in bytes, for the answers and requests of ended turns.
        vertical_share: share of `dispatches` that may call sub-agents of one vertical, if there are several verticals.
        principal_share: share of `dispatches` that one user may have.
    """

    turns: int = 1000
    dispatches: int = 256
    min_remaining_time: timedelta = timedelta(milliseconds=20)
    ended_turns: int = 500
    idle_turns: int = 5000
    ended_turn_bytes: int = 64 * 1024 * 1024
    vertical_share: float = 0.75
    principal_share: float = 0.5


class HistoryRules(Struct, frozen=True):
    """How conversations are stored and read.

    Attributes:
        own_turns: the most earlier answers that a sub-agent may read.
        episode_turns: the most turns of an episode in one read.
        answer_bytes: the largest response, in bytes; if it would be larger, the oldest turns are omitted.
        queue: the most ended turns that wait to be stored.
        timeout: the longest wait for the episode memory, which stores the conversations.
        catch_up_window, catch_up_max_turns: age and number of the turns that are checked for missing history.
        size_cache_ttl: the age from which a cached episode size is read again at bind.
    """

    compaction: CompactionRules = field(default_factory=CompactionRules)
    own_turns: int = 20
    episode_turns: int = 500
    answer_bytes: int = 2 * 1024 * 1024
    queue: int = 1000
    timeout: timedelta = timedelta(seconds=2)
    catch_up_window: timedelta = timedelta(hours=24)
    catch_up_max_turns: int = 2000
    size_cache_ttl: timedelta = timedelta(seconds=10)


class RecordRules(Struct, frozen=True):
    """How the record is read.

    Attributes:
        page: rows of a list, if the caller names no number.
        answer_bytes: the largest response, in bytes; long texts are omitted first.
        batch_bytes: the most bytes of events in one message of a stream.
        watchers: the most concurrent watchers of turns.
        poll: the interval of reads for facts that other processes append.
        gather: how long to wait for further facts after an append of this process.
    """

    page: int = 50
    # Leaves a quarter of a message of 4 MiB (`server.limits.message_bytes`) for what surrounds the texts.
    answer_bytes: int = 3 * 1024 * 1024
    batch_bytes: int = 256 * 1024
    watchers: int = 64
    poll: timedelta = timedelta(seconds=1)
    gather: timedelta = timedelta(milliseconds=20)


class DispatchRules(Struct, frozen=True):
    """How the calls of a response are executed.

    Attributes:
        join_timeout: the longest time for a dispatch, whatever its client allows.
        delivery_margin: time reserved before the client's deadline to deliver the outcomes.
        resume_grace: how long a dispatch whose sidecar died is left to its parent before it is settled. If it was taken
            over to cancel another call, its calls are cancelled after this time.
        record_poll_interval: interval between two reads of the record that detect the work of other sidecars, and
            orphans.
        turn_lifetime: a turn that is still open after this time is reaped.
        idle_lifetime: a turn without work and without requests during this time is reaped.
        record_timeout: the longest time that a verdict or the end of a turn waits for the store.
        episode_lookup_timeout: the longest time that a bind waits for the facts of the episode.
        strict_prior_context: refuse an intent switch without `prior_context` (TN-12).
        replay_buffer_events: events of each dispatch that are kept for listeners that resume.
        cancel_grace: an attempt that still runs this long after its cancellation is reported.
        episodes_cached: number of episodes whose last dispatching turn is cached.
        question_lifetime: the longest time for which a question of a sub-agent can be answered.
        record_frames: record the runners' messages, so that turns can be replayed.
        cost: budgets in money.
        outcomes_bytes: the most bytes of all answers of one dispatch. One message carries them, and each answer may use
            an equal share of it.
    """

    binding: BindingRules
    vocabulary: Vocabulary
    join_timeout: timedelta = timedelta(seconds=100)
    delivery_margin: timedelta = timedelta(milliseconds=250)
    resume_grace: timedelta = timedelta(seconds=10)
    record_poll_interval: timedelta = timedelta(seconds=1)
    turn_lifetime: timedelta = timedelta(minutes=15)
    idle_lifetime: timedelta = timedelta(minutes=5)
    record_timeout: timedelta = timedelta(seconds=2)
    episode_lookup_timeout: timedelta = timedelta(milliseconds=20)
    strict_prior_context: bool = False
    replay_buffer_events: int = 1024
    cancel_grace: timedelta = timedelta(seconds=5)
    episodes_cached: int = 10_000
    # Leaves a quarter of a message of 4 MiB (`server.limits.message_bytes`) for what surrounds the answers.
    outcomes_bytes: int = 3 * 1024 * 1024
    question_lifetime: timedelta = timedelta(hours=24)
    cost: CostBudgets = field(default_factory=CostBudgets)
    record_frames: bool = True
    admission: AdmissionRules = field(default_factory=AdmissionRules)
    retries: RetryRules = field(default_factory=RetryRules)
    breaker: BreakerRules = field(default_factory=BreakerRules)
    # `RunChild` lowers the limit of one answer to its share of `outcomes_bytes`.
    results: ResultLimits = field(default_factory=ResultLimits)
    envelopes: EnvelopeLimits = field(default_factory=EnvelopeLimits)
    signatures: SignatureRules = field(default_factory=SignatureRules)
    history: HistoryRules = field(default_factory=HistoryRules)
    record: RecordRules = field(default_factory=RecordRules)
