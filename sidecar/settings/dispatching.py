"""The `[dispatch]` section."""

from datetime import timedelta
from typing import Final

from sidecar.settings.section import Section, setting
from sidecar.settings.values import Duration

NOTHING: Final = timedelta(0)
SECOND: Final = timedelta(seconds=1)
MIB: Final = 1024 * 1024


class AdmissionSettings(Section):
    """How much is done at once; more is refused with a hint when to come back."""

    turns: int = setting(1000, ge=1, description="Most turns in which work runs at a time; more are refused at bind.")
    idle_turns: int = setting(
        5000, ge=1, description="Most open turns in which nothing runs; for further ones the oldest are ended."
    )
    dispatches: int = setting(256, ge=1, description="Most dispatches running at a time.")
    least_time: Duration = setting(
        timedelta(milliseconds=20), gt=NOTHING, description="A dispatch with less time than this left is refused."
    )
    ended_turns: int = setting(
        500,
        ge=0,
        description="Ended turns whose dispatches can be resumed from memory; of four times as many the end is kept.",
    )


class RetrySettings(Section):
    """When a failed attempt is repeated; only those whose definition allows more than one attempt."""

    first_backoff: Duration = setting(
        timedelta(milliseconds=100), gt=NOTHING, description="Longest wait before the second attempt."
    )
    longest_backoff: Duration = setting(2 * SECOND, gt=NOTHING, description="Longest wait before any attempt.")
    share: float = setting(0.1, ge=0, le=1, description="Retries allowed, as a share of the calls in the window.")
    floor: int = setting(3, ge=0, description="Retries always allowed in a window.")
    window: Duration = setting(10 * SECOND, gt=NOTHING, description="How far back the retry budget looks.")


class BreakerSettings(Section):
    """When calls of a slot to a target that cannot be reached fail at once."""

    failures: int = setting(
        5, ge=1, description="Transport faults in a row that open the breaker of a target and slot."
    )
    open_for: Duration = setting(5 * SECOND, gt=NOTHING, description="How long an open breaker lets nothing through.")


class ResultSettings(Section):
    """Bounds on what one attempt of a sub-agent may bring."""

    narration: int = setting(256 * 1024, ge=1, description="Most characters of narration.")
    component: int = setting(256 * 1024, ge=1, description="Most characters of one component.")
    components: int = setting(32, ge=0, description="Most components.")
    events: int = setting(100_000, ge=1, description="Most events of any kind.")
    silence: Duration | None = setting(
        None, gt=NOTHING, description="An attempt that reports nothing for so long has failed; none: its timeout only."
    )


class EnvelopeSettings(Section):
    """Bounds on one answer of a data service."""

    max_bytes: int = setting(MIB, ge=1024, le=16 * MIB, description="Largest envelope, in bytes.")
    max_depth: int = setting(32, ge=1, le=100, description="Most arrays and objects within one another in a payload.")
    max_cache_meta_bytes: int = setting(
        4096, ge=0, description="Largest `cache_meta` that is passed to traces, in bytes; a larger one is left out."
    )


class CostSettings(Section):
    """Budgets in US dollars. Without them nothing is refused for its cost."""

    per_turn_usd: float | None = setting(
        None, gt=0, description="What the sub-agents of a turn may have cost before no other one is started in it."
    )
    per_principal_and_day_usd: float | None = setting(
        None, gt=0, description="The same for all turns that a user began on one day, in UTC, at any replica."
    )


class DispatchSettings(Section):
    """How the calls of one model response are carried out."""

    fan_out_cap: int = setting(
        ge=1, le=10, description="Most sub-agents that run at a time in a turn. No default: an operator decides."
    )
    max_dispatches_per_turn: int = setting(10, ge=1, description="Most model responses with calls in one turn.")
    join_timeout: Duration = setting(
        100 * SECOND, gt=NOTHING, description="Longest one dispatch may take, whatever its client allows."
    )
    delivery_margin: Duration = setting(
        timedelta(milliseconds=250),
        gt=NOTHING,
        description="Time kept free before a client's deadline, so that the outcomes still reach it.",
    )
    resume_grace: Duration = setting(
        10 * SECOND,
        ge=NOTHING,
        description="How long a dispatch whose sidecar died is left to its parent to resume, before it is settled.",
    )
    look_every: Duration = setting(
        SECOND, gt=NOTHING, description="How often to look on record for what other sidecars do, or have left."
    )
    turn_lifetime: Duration = setting(
        900 * SECOND, gt=NOTHING, description="A turn that was not ended is closed after this time; its token expires."
    )
    idle_lifetime: Duration = setting(
        300 * SECOND,
        gt=NOTHING,
        description="A turn without running work and without a call for so long is closed earlier.",
    )
    record_timeout: Duration = setting(2 * SECOND, gt=NOTHING, description="Longest wait for the store.")
    facts_timeout: Duration = setting(
        timedelta(milliseconds=20), gt=NOTHING, description="Longest a bind waits for what is known of the episode."
    )
    strict_prior_context: bool = setting(
        False, description="Refuse a switch to other sub-agents that comes without `prior_context`."
    )
    events_kept: int = setting(1024, ge=1, description="Events of each dispatch kept for clients that resume.")
    quarantine_after: Duration = setting(
        5 * SECOND, gt=NOTHING, description="A sub-agent that runs on so long after it was told to stop is reported."
    )
    episodes_cached: int = setting(
        10_000, ge=1, description="Episodes for which the last dispatching turn is remembered."
    )
    cost: CostSettings = setting(CostSettings(), description="What sub-agents may cost.")
    admission: AdmissionSettings = setting(AdmissionSettings(), description="How much is done at once.")
    retries: RetrySettings = setting(RetrySettings(), description="When a failed attempt is repeated.")
    breaker: BreakerSettings = setting(
        BreakerSettings(), description="When calls to an unreachable runner fail at once."
    )
    results: ResultSettings = setting(ResultSettings(), description="Bounds on what a sub-agent brings.")
    envelopes: EnvelopeSettings = setting(EnvelopeSettings(), description="Bounds on what a data service answers.")
