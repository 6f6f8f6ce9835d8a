"""The `[dispatch]` section."""

from datetime import timedelta
from typing import Final

from pydantic import Field

from sidecar.settings.values import Duration, Section

NOTHING: Final = timedelta(0)
SECOND: Final = timedelta(seconds=1)
MIB: Final = 1024 * 1024


class AdmissionSettings(Section):
    """How much is done at once; more is refused with a hint when to come back."""

    turns: int = Field(1000, ge=1, description="Most turns in which work runs at a time; more are refused at bind.")
    idle_turns: int = Field(
        5000, ge=1, description="Most open turns in which nothing runs; for further ones the oldest are ended."
    )
    dispatches: int = Field(256, ge=1, description="Most dispatches running at a time.")
    least_time: Duration = Field(
        timedelta(milliseconds=20), gt=NOTHING, description="A dispatch with less time than this left is refused."
    )
    ended_turns: int = Field(
        1000,
        ge=0,
        description="Ended turns whose dispatches can be resumed from memory; of four times as many the end is kept.",
    )


class RetrySettings(Section):
    """When a failed attempt is repeated; only those whose definition allows more than one attempt."""

    first_backoff: Duration = Field(
        timedelta(milliseconds=100), gt=NOTHING, description="Longest wait before the second attempt."
    )
    longest_backoff: Duration = Field(2 * SECOND, gt=NOTHING, description="Longest wait before any attempt.")
    share: float = Field(0.1, ge=0, le=1, description="Retries allowed, as a share of the calls in the window.")
    floor: int = Field(3, ge=0, description="Retries always allowed in a window.")
    window: Duration = Field(10 * SECOND, gt=NOTHING, description="How far back the retry budget looks.")


class BreakerSettings(Section):
    """When calls of a slot to a target that cannot be reached fail at once."""

    failures: int = Field(5, ge=1, description="Transport faults in a row that open the breaker of a target and slot.")
    open_for: Duration = Field(5 * SECOND, gt=NOTHING, description="How long an open breaker lets nothing through.")


class ResultSettings(Section):
    """Bounds on what one attempt of a sub-agent may bring."""

    narration: int = Field(256 * 1024, ge=1, description="Most characters of narration.")
    component: int = Field(256 * 1024, ge=1, description="Most characters of one component.")
    components: int = Field(32, ge=0, description="Most components.")
    events: int = Field(100_000, ge=1, description="Most events of any kind.")
    silence: Duration | None = Field(
        None, gt=NOTHING, description="An attempt that reports nothing for so long has failed; none: its timeout only."
    )


class EnvelopeSettings(Section):
    """Bounds on one answer of a data service."""

    max_bytes: int = Field(MIB, ge=1024, le=16 * MIB, description="Largest envelope, in bytes.")
    max_depth: int = Field(32, ge=1, le=100, description="Most arrays and objects within one another in a payload.")
    max_cache_meta_bytes: int = Field(
        4096, ge=0, description="Largest `cache_meta` that is passed to traces, in bytes; a larger one is left out."
    )


class DispatchSettings(Section):
    """How the calls of one model response are carried out."""

    fan_out_cap: int = Field(
        ge=1, le=10, description="Most sub-agents that run at a time in a turn. No default: an operator decides."
    )
    max_dispatches_per_turn: int = Field(10, ge=1, description="Most model responses with calls in one turn.")
    join_timeout: Duration = Field(
        100 * SECOND, gt=NOTHING, description="Longest one dispatch may take, whatever its client allows."
    )
    delivery_margin: Duration = Field(
        timedelta(milliseconds=250),
        gt=NOTHING,
        description="Time kept free before a client's deadline, so that the outcomes still reach it.",
    )
    resume_grace: Duration = Field(
        10 * SECOND,
        ge=NOTHING,
        description="How long a dispatch whose sidecar died is left to its parent to resume, before it is settled.",
    )
    look_every: Duration = Field(
        SECOND, gt=NOTHING, description="How often to look on record for what other sidecars do, or have left."
    )
    turn_lifetime: Duration = Field(
        900 * SECOND, gt=NOTHING, description="A turn that nobody ended is closed after this; its token expires then."
    )
    idle_lifetime: Duration = Field(
        300 * SECOND,
        gt=NOTHING,
        description="A turn in which nothing has run for so long, and for which nobody has asked, is closed earlier.",
    )
    record_timeout: Duration = Field(2 * SECOND, gt=NOTHING, description="Longest wait for the store.")
    facts_timeout: Duration = Field(
        timedelta(milliseconds=20), gt=NOTHING, description="Longest a bind waits for what is known of the episode."
    )
    strict_prior_context: bool = Field(
        False, description="Refuse a switch to other sub-agents that comes without `prior_context`."
    )
    events_kept: int = Field(1024, ge=1, description="Events of each dispatch kept for clients that resume.")
    quarantine_after: Duration = Field(
        5 * SECOND, gt=NOTHING, description="A sub-agent that runs on so long after it was told to stop is reported."
    )
    episodes_cached: int = Field(
        10_000, ge=1, description="Episodes for which the last dispatching turn is remembered."
    )
    admission: AdmissionSettings = Field(AdmissionSettings(), description="How much is done at once.")
    retries: RetrySettings = Field(RetrySettings(), description="When a failed attempt is repeated.")
    breaker: BreakerSettings = Field(BreakerSettings(), description="When calls to an unreachable runner fail at once.")
    results: ResultSettings = Field(ResultSettings(), description="Bounds on what a sub-agent brings.")
    envelopes: EnvelopeSettings = Field(EnvelopeSettings(), description="Bounds on what a data service answers.")
