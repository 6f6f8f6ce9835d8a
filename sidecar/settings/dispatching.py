"""The `[dispatch]` section: how the sub-agents of one model response are executed, with limits and retries."""

from datetime import timedelta
from typing import Final

from sidecar.settings.section import Section, setting
from sidecar.settings.values import Duration

NOTHING: Final = timedelta(0)
SECOND: Final = timedelta(seconds=1)
MIB: Final = 1024 * 1024


class AdmissionSettings(Section):
    """Limits on concurrent work. Requests beyond them are refused with a retry hint."""

    turns: int = setting(
        1000, ge=1, description="Maximum number of turns with running work. BindTurn is refused beyond it."
    )
    idle_turns: int = setting(
        5000, ge=1, description="Maximum number of open turns without running work. Beyond it the oldest are ended."
    )
    dispatches: int = setting(256, ge=1, description="Maximum number of concurrent dispatches.")
    vertical_share: float = setting(
        0.75,
        gt=0,
        le=1,
        description="Maximum share of `dispatches` that may call sub-agents of one vertical at a time. The rest is "
        "for other verticals, if the definitions have any.",
    )
    principal_share: float = setting(
        0.5, gt=0, le=1, description="Maximum share of `dispatches` that one user may have at a time."
    )
    min_remaining_time: Duration = setting(
        timedelta(milliseconds=20),
        gt=NOTHING,
        description="Minimum time until the deadline; a dispatch with less is refused.",
    )
    ended_turns: int = setting(
        500,
        ge=0,
        description="Number of ended turns whose dispatches can be resumed from memory. For four times as many turns "
        "only the fact that they ended is kept.",
    )
    ended_turn_bytes: int = setting(
        64 * MIB,
        ge=0,
        description="Maximum memory for the answers and requests of these turns, in bytes. Beyond it those of the "
        "oldest turns are removed.",
    )


class RetrySettings(Section):
    """Retries of failed attempts, for definitions that allow more than one attempt."""

    initial_backoff: Duration = setting(
        timedelta(milliseconds=100), gt=NOTHING, description="Maximum wait before the second attempt."
    )
    max_backoff: Duration = setting(2 * SECOND, gt=NOTHING, description="Maximum wait before any attempt.")
    # A share of all calls: if every call fails, retries add a tenth to the load, whatever the definitions allow.
    budget_ratio: float = setting(0.1, ge=0, le=1, description="Maximum retries as a share of the calls in the window.")
    # With few calls in a window, the share alone would allow no retry.
    budget_min: int = setting(3, ge=0, description="Number of retries that are always allowed in a window.")
    window: Duration = setting(10 * SECOND, gt=NOTHING, description="Length of the window of the retry budget.")


class BreakerSettings(Section):
    """Circuit breaker: calls of a slot to an unreachable target fail immediately."""

    failure_threshold: int = setting(
        5, ge=1, description="Consecutive transport faults that open the breaker of a target and slot."
    )
    open_duration: Duration = setting(5 * SECOND, gt=NOTHING, description="Time that a breaker stays open.")


class ResultSettings(Section):
    """Limits on the output of one attempt of a sub-agent."""

    max_narration_chars: int = setting(256 * 1024, ge=1, description="Maximum number of characters of narration.")
    max_component_chars: int = setting(256 * 1024, ge=1, description="Maximum number of characters of one component.")
    max_components: int = setting(32, ge=0, description="Maximum number of components.")
    max_events: int = setting(100_000, ge=1, description="Maximum number of events of all kinds.")
    idle_timeout: Duration | None = setting(
        None,
        gt=NOTHING,
        description="An attempt without any report for this time fails. Unset: only its timeout applies.",
    )


class EnvelopeSettings(Section):
    """Limits on one response of a data service."""

    default_bytes: int = setting(
        MIB // 4, ge=1024, description="Maximum size of an envelope whose tool has no `max_response_bytes`, in bytes."
    )
    max_bytes: int = setting(
        MIB, ge=1024, le=16 * MIB, description="Maximum size of any envelope, whatever its tool says, in bytes."
    )
    max_depth: int = setting(32, ge=1, le=100, description="Maximum nesting depth of arrays and objects in a payload.")
    max_cache_meta_bytes: int = setting(
        4096, ge=0, description="Maximum size of a `cache_meta` in traces, in bytes; a larger one is omitted."
    )


class CostSettings(Section):
    """Budgets in US dollars. Without them nothing is refused for its cost."""

    per_turn_usd: float | None = setting(
        None, gt=0, description="Cost of a turn's sub-agents above which no further one is started in that turn."
    )
    per_principal_and_day_usd: float | None = setting(
        None,
        gt=0,
        description="The same limit for all turns that a user began on one day (UTC), at all replicas together.",
    )


class DispatchSettings(Section):
    """Execution of the calls of one model response."""

    # No default: the operator decides about money and capacity, i.e. how many models may run at once for one user.
    fan_out_cap: int = setting(
        ge=1,
        le=10,
        description="Fan-out cap: the maximum number of sub-agents of a turn that run or wait to run. Required, "
        "without a default.",
    )
    max_dispatches_per_turn: int = setting(10, ge=1, description="Maximum number of dispatches in one turn.")
    # `Settings` checks that `server.drain_grace` is at least this and `delivery_margin` together, so that a stop cuts
    # off no dispatch.
    join_timeout: Duration = setting(
        100 * SECOND, gt=NOTHING, description="Maximum duration of a dispatch, regardless of its client's deadline."
    )
    delivery_margin: Duration = setting(
        timedelta(milliseconds=250),
        gt=NOTHING,
        description="Time reserved before a client's deadline, so that the outcomes still reach the client.",
    )
    resume_grace: Duration = setting(
        10 * SECOND,
        ge=NOTHING,
        description="Time in which a parent can resume a dispatch whose sidecar died, before another sidecar "
        "settles the dispatch, or cancels the calls that it took over with the cancel of another call.",
    )
    record_poll_interval: Duration = setting(
        SECOND,
        gt=NOTHING,
        description="Interval at which the record is polled for changes by other sidecars, and for orphaned work.",
    )
    turn_lifetime: Duration = setting(
        900 * SECOND,
        gt=NOTHING,
        description="Maximum duration of a turn. A turn that was not ended is closed then, and its token expires.",
    )
    idle_lifetime: Duration = setting(
        300 * SECOND,
        gt=NOTHING,
        description="A turn without running work and without a request for this time is closed earlier.",
    )
    record_timeout: Duration = setting(2 * SECOND, gt=NOTHING, description="Maximum wait for the store.")
    # Short: a slow database must not delay the model. A bind without these facts is still complete.
    episode_lookup_timeout: Duration = setting(
        timedelta(milliseconds=20),
        gt=NOTHING,
        description="Maximum time that a bind waits for the stored facts of its episode.",
    )
    strict_prior_context: bool = setting(
        False, description="Refuse a dispatch that switches to other sub-agents without `prior_context`."
    )
    question_lifetime: Duration = setting(
        timedelta(hours=24), gt=NOTHING, description="Maximum time in which a question of a sub-agent can be answered."
    )
    replay_buffer_events: int = setting(
        1024, ge=1, description="Number of events of each dispatch that are kept for clients that resume."
    )
    cancel_grace: Duration = setting(
        5 * SECOND,
        gt=NOTHING,
        description="A sub-agent that is still running this long after its cancellation is reported as quarantined.",
    )
    episodes_cached: int = setting(
        10_000, ge=1, description="Number of episodes for which the last dispatching turn is cached."
    )
    cost: CostSettings = setting(CostSettings(), description="Budgets in money.")
    admission: AdmissionSettings = setting(AdmissionSettings(), description="Limits on concurrent work.")
    retries: RetrySettings = setting(RetrySettings(), description="Retries of failed attempts.")
    breaker: BreakerSettings = setting(BreakerSettings(), description="Circuit breaker for unreachable runners.")
    results: ResultSettings = setting(ResultSettings(), description="Limits on the output of a sub-agent.")
    envelopes: EnvelopeSettings = setting(EnvelopeSettings(), description="Limits on the response of a data service.")
