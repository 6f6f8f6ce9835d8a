"""Computes the metrics of trials: shares with intervals, a confusion matrix, times, tokens and cost. Pure."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from subagents_evals.measures.statistics import bootstrap, quantile, wilson
from subagents_evals.measures.trial import Trial, by_case

NONE: Final = "(none)"
"""In the confusion matrix: no sub-agent was wanted, or none was called."""


class Share(msgspec.Struct, frozen=True):
    """A share with its 95 % Wilson interval; `value` is None if there was nothing to count.

    Attributes:
        hits: number of successes. A repeated case counts once, as the mean of its trials, so this may be a fraction.
        of: number of cases.
        low, high: bounds of the interval.
    """

    hits: float
    of: int
    value: float | None
    low: float
    high: float


class Spread(msgspec.Struct, frozen=True):
    """Values of many trials: mean with its 95 % bootstrap interval, median and 95th percentile; None without values."""

    of: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    p50: float | None = None
    p95: float | None = None


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a group of cases: all cases, or those of one sub-agent, language or kind.

    Attributes:
        routing: trials whose called slots were exactly the wanted ones.
        switches: like `routing`, but only of switches between sub-agents.
        passed: trials that met all conditions of their case.
        intents: trials whose declared number of intents was the case's.
        entities: needed entities that reached the sub-agent.
        resolved: references to an earlier turn of another sub-agent that reached the sub-agent that needs them.
        admitted: failed sub-agents whose failure the user read, in the model's words or in a note.
        stated, noted: failed sub-agents that the model's statement lists, and those for which a note was added.
        falsely_stated: failed sub-agents that the statement lists although the answer does not admit the failure.
        safe: of trials that test safety, those in which nothing forbidden was done or said.
        well_formed: of trials that call sub-agents, those with valid arguments and an answer of the vertical's format.
        false_admissions: trials in which the answer admits a failure that did not occur.
        over_called, under_called: trials with a call too many, with a call too few.
        repeated: trials in which a sub-agent was called more than once.
        quality: scores of the judge.
        seconds_to_status, seconds_to_answer: of trials that called a sub-agent.
        longest_silence: seconds without new text for the user, in trials that called a sub-agent.
        status_events: number of progress lines in these trials.
        cached_input_tokens: input tokens from the provider's cache, of trials whose provider reports them.
    """

    cases: int
    routing: Share
    switches: Share
    passed: Share
    intents: Share
    entities: Share
    resolved: Share
    safe: Share
    well_formed: Share
    admitted: Share
    stated: Share
    noted: Share
    falsely_stated: Share
    false_admissions: Share
    over_called: Share
    under_called: Share
    repeated: Share
    quality: Spread
    seconds_to_status: Spread
    seconds_to_answer: Spread
    longest_silence: Spread
    status_events: Spread
    input_tokens: Spread
    cached_input_tokens: Spread
    output_tokens: Spread
    cost: Spread


class Tool(msgspec.Struct, frozen=True):
    """Precision and recall of the calls of one sub-agent, over all trials."""

    precision: Share
    recall: Share


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a run measured.

    Attributes:
        tools: slot to its precision and recall.
        confusion: how often a wanted slot (outer key) became a called one (inner key); `(none)` for neither.
    """

    all: Figures
    by_slot: Mapping[str, Figures]
    by_language: Mapping[str, Figures]
    by_kind: Mapping[str, Figures]
    tools: Mapping[str, Tool]
    confusion: Mapping[str, Mapping[str, int]]


def measured(trials: Sequence[Trial], slots: Sequence[str]) -> Metrics:
    """Return the metrics of a run.

    Args:
        trials: of any number of cases and repetitions.
        slots: the sub-agents of the surface.
    """
    languages = list(dict.fromkeys(one.language for one in trials))
    kinds = list(dict.fromkeys(one.kind for one in trials))
    return Metrics(
        all=figures_of(trials),
        by_slot={slot: figures_of([one for one in trials if slot in one.about]) for slot in slots},
        by_language={each: figures_of([one for one in trials if one.language == each]) for each in languages},
        by_kind={each: figures_of([one for one in trials if one.kind == each]) for each in kinds},
        tools={slot: _tool(slot, trials) for slot in slots},
        confusion=confusion_of(trials, slots),
    )


def figures_of(trials: Sequence[Trial]) -> Figures:
    """Return the figures of some trials."""
    called = [one for one in trials if one.observed.called]
    missing = sum(one.missing for one in trials)
    to_status = [one.observed.seconds_to_status for one in called if one.observed.seconds_to_status is not None]
    return Figures(
        cases=len(by_case(trials)),
        routing=_share(trials, lambda one: one.exact),
        switches=_share([one for one in trials if one.switch], lambda one: one.exact),
        passed=_share(trials, lambda one: one.passed),
        intents=_share(trials, lambda one: one.intents_agree),
        entities=share_of(sum(one.recalled for one in trials), sum(one.needed for one in trials)),
        resolved=_share([one for one in trials if one.resolved is not None], lambda one: bool(one.resolved)),
        safe=_share([one for one in trials if one.safe is not None], lambda one: bool(one.safe)),
        well_formed=_share([one for one in trials if one.well_formed is not None], lambda one: bool(one.well_formed)),
        admitted=share_of(sum(one.admitted for one in trials), missing),
        stated=share_of(sum(one.stated for one in trials), missing),
        noted=share_of(sum(one.noted for one in trials), missing),
        falsely_stated=share_of(sum(one.falsely_stated for one in trials), missing),
        false_admissions=_share([one for one in trials if not one.missing], lambda one: one.false_admission),
        over_called=_share(trials, lambda one: bool(set(one.observed.called) - set(one.wanted))),
        under_called=_share(trials, lambda one: bool(set(one.wanted) - set(one.observed.called))),
        repeated=_share(trials, lambda one: len(set(one.observed.called)) < len(one.observed.called)),
        quality=spread([one.quality for one in trials if one.quality is not None]),
        seconds_to_status=spread(to_status),
        seconds_to_answer=spread([one.observed.seconds_to_answer for one in called]),
        longest_silence=spread([one.observed.longest_silence for one in called]),
        status_events=spread([float(one.observed.status_events) for one in called]),
        input_tokens=spread([float(one.observed.input_tokens) for one in trials]),
        cached_input_tokens=spread(
            [float(tokens) for one in trials if (tokens := one.observed.cached_input_tokens) is not None]
        ),
        output_tokens=spread([float(one.observed.output_tokens) for one in trials]),
        cost=spread([one.observed.cost for one in trials if one.observed.cost is not None]),
    )


def confusion_of(trials: Sequence[Trial], slots: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
    """Return how often a wanted slot became a called one.

    A slot that was wanted and called is right. A wanted slot that was not called became each slot that was called
    without need, or none; a slot that was called without need where nothing is missing came out of none.
    """
    counted: Counter[tuple[str, str]] = Counter()
    for one in trials:
        wanted, called = set(one.wanted), set(one.observed.called)
        missed, extra = sorted(wanted - called), sorted(called - wanted)
        counted.update((slot, slot) for slot in wanted & called)
        counted.update((lost, got) for lost in missed or [NONE] for got in extra)
        counted.update((lost, NONE) for lost in missed if not extra)
        counted.update([(NONE, NONE)] if not wanted and not called else [])
    others = sorted({got for _, got in counted} - {*slots, NONE})
    return {
        wanted: {called: counted[wanted, called] for called in [*slots, *others, NONE]} for wanted in [*slots, NONE]
    }


def share_of(hits: float, of: int) -> Share:
    """Return a share with its interval."""
    low, high = wilson(hits, of)
    return Share(hits, of, hits / of if of else None, low, high)


def spread(values: Sequence[float]) -> Spread:
    """Return mean, interval, median and 95th percentile of values."""
    if not values:
        return Spread(0)
    low, high = bootstrap(values)
    mean = math.fsum(values) / len(values)
    return Spread(len(values), mean, low, high, quantile(values, 0.5), quantile(values, 0.95))


def _share(trials: Sequence[Trial], succeeded: Callable[[Trial], bool]) -> Share:
    """Return the share of cases; trials of the same case are no independent observations, so that they count as one."""
    cases = by_case(trials).values()
    return share_of(math.fsum(sum(map(succeeded, each)) / len(each) for each in cases), len(cases))


def _tool(slot: str, trials: Sequence[Trial]) -> Tool:
    called = [one for one in trials if slot in one.observed.called]
    wanted = [one for one in trials if slot in one.wanted]
    return Tool(_share(called, lambda one: slot in one.wanted), _share(wanted, lambda one: slot in one.observed.called))
