"""The operator's settings for dispatching, as plain values for the operations."""

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
    """How much at once.

    Attributes:
        turns: most turns in which work runs at a time.
        dispatches: most dispatches that run at a time.
        min_remaining_time: a dispatch with less time than this is refused rather than begun in vain.
        ended_turns: ended turns whose dispatches are resumed from memory; of four times as many only the end is kept.
        idle_turns: most turns that are open although nothing runs in them; for further ones the oldest are ended.
        ended_turn_bytes: room for the answers and requests of those.
        vertical_share: of `dispatches`, that may call sub-agents of one vertical at a time, if there are several.
        principal_share: of `dispatches`, that one user may have at a time.
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
    """How conversations are kept.

    Attributes:
        own_turns: most earlier answers that a sub-agent may read.
        episode_turns: most turns of an episode that are read at a time.
        answer_bytes: room for what one answer brings; older turns are left out.
        queue: most ended turns that wait to be kept.
        timeout: longest wait for the memory.
        look_back, look_back_turns: how far back, and how many turns, are looked at for what is not kept yet.
        size_cache_ttl: the size of an episode that was learned longer ago is read again at bind.
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
    """How what is on record is shown.

    Attributes:
        page: rows of a list, if the caller does not say.
        answer_bytes: room for what one answer brings; long texts are left out first.
        batch_bytes: room for the events of one message of a stream.
        watchers: most who watch turns at a time.
        poll: how often to look for what other processes append.
        gather: how long to wait for more, once something was appended here.
    """

    page: int = 50
    answer_bytes: int = 3 * 1024 * 1024
    batch_bytes: int = 256 * 1024
    watchers: int = 64
    poll: timedelta = timedelta(seconds=1)
    gather: timedelta = timedelta(milliseconds=20)


class DispatchRules(Struct, frozen=True):
    """How the calls of a response are executed.

    Attributes:
        join_timeout: longest a dispatch may take, whatever its client allows.
        delivery_margin: time kept free before the client's deadline, so that the outcomes still arrive.
        resume_grace: how long a dispatch whose sidecar died is left to its parent before it is settled, or, if it was
            taken over to cancel another call, its calls are cancelled.
        record_poll_interval: between two reads of the record, to notice what other sidecars do or have left behind.
        turn_lifetime: a turn that is still open after this time is reaped.
        idle_lifetime: a turn that was neither running nor asked for during this time is reaped.
        record_timeout: longest time that a verdict or the end of a turn waits for the store.
        episode_lookup_timeout: longest time that a bind waits for the facts of the episode.
        strict_prior_context: refuse an intent switch without `prior_context` (TN-12).
        replay_buffer_events: events of each dispatch that are kept for listeners that resume.
        cancel_grace: an attempt that still runs this long after its cancellation is reported.
        episodes_cached: number of episodes whose last dispatching turn is remembered.
        question_lifetime: longest time for which a question of a sub-agent can be answered.
        record_frames: record the runners' messages, so that turns can be replayed.
        cost: budgets in money.
        outcomes_bytes: room for all answers of one dispatch, which travel in one message; each gets an equal share.
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
    outcomes_bytes: int = 3 * 1024 * 1024
    question_lifetime: timedelta = timedelta(hours=24)
    cost: CostBudgets = field(default_factory=CostBudgets)
    record_frames: bool = True
    admission: AdmissionRules = field(default_factory=AdmissionRules)
    retries: RetryRules = field(default_factory=RetryRules)
    breaker: BreakerRules = field(default_factory=BreakerRules)
    results: ResultLimits = field(default_factory=ResultLimits)
    envelopes: EnvelopeLimits = field(default_factory=EnvelopeLimits)
    signatures: SignatureRules = field(default_factory=SignatureRules)
    history: HistoryRules = field(default_factory=HistoryRules)
    record: RecordRules = field(default_factory=RecordRules)
