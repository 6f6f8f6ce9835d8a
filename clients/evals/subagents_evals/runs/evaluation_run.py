"""One run: read the configuration and its golden set, start a sidecar, play every case, judge, and measure."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from uuid import uuid4

from langchain_core.language_models import BaseChatModel

from subagents_evals.inputs.cases import Case, GoldenSet, read_golden_set
from subagents_evals.inputs.configuration import SETS, Configuration, capabilities_of, read_configuration
from subagents_evals.inputs.coverage import gaps, unknown_capabilities
from subagents_evals.inputs.strict_yaml import UnusableFile
from subagents_evals.measures.metrics import measured
from subagents_evals.measures.results import OFFLINE, Run, measured_definitions, surface_digest
from subagents_evals.measures.trial import Trial
from subagents_evals.runs.judging import with_judgements
from subagents_evals.runs.lexical_router import LexicalRouter
from subagents_evals.runs.play_cases import CasePlayer, Director, Models
from subagents_evals.runs.stage import started_environment


class NoCasesSelected(ValueError):
    """No case matches the filters."""


class ModelFailed(RuntimeError):
    """A model cannot be used, so nothing was measured; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSelection:
    """Selects the cases to play; an empty filter selects all.

    Attributes:
        ids: patterns of case ids, e.g. `switch-*`.
        slots: cases that say something about one of these sub-agents.
        languages: of the cases.
    """

    ids: Sequence[str] = ()
    slots: Sequence[str] = ()
    languages: Sequence[str] = ()

    @property
    def whole(self) -> bool:
        """Whether all cases of the chosen sub-agents are played, so that their coverage and every metric count."""
        return not (self.ids or self.languages)

    def of(self, cases: Sequence[Case]) -> Sequence[Case]:
        """Return the chosen cases. Raises `NoCasesSelected`."""
        chosen = [
            case
            for case in cases
            if (not self.ids or any(fnmatchcase(case.id, one) for one in self.ids))
            and (not self.slots or not case.calls or set(self.slots) & {*case.calls, *case.forbidden})
            and (not self.languages or case.language in self.languages)
        ]
        if not chosen:
            raise NoCasesSelected("no case fits the filters; `--only '*'` plays all")
        return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """The options of a run.

    Attributes:
        folder: the folder that contains `agent_config.yaml`.
        sets: holds the cases; None: `evals` in the folder.
        candidates: definitions that fill their slots.
        model, summary_model, judge: as `init_chat_model` takes them; `offline` or empty: the built-in ones.
        choice: which cases.
        how: how often, and how many at a time.
    """

    folder: Path
    sets: Path | None = None
    candidates: Sequence[str] = ()
    model: str = OFFLINE
    summary_model: str = ""
    judge: str = ""
    choice: CaseSelection = field(default_factory=CaseSelection)
    how: CasePlayer = field(default_factory=CasePlayer)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The inputs of a run, read and checked."""

    configuration: Configuration
    golden: GoldenSet
    cases: Sequence[Case]
    gaps: Sequence[str]

    @property
    def trials(self) -> int:
        """Number of cases."""
        return len(self.cases)


def prepare(options: Measuring, *, earlier: bool = False) -> Prepared:
    """Read and check everything that a run needs.

    Args:
        options: the options of the run.
        earlier: the configuration is older than the cases, which may cover what its cards do not declare yet.

    Raises:
        UnusableFile: a file of the golden set cannot be used.
        UnusableConfiguration: the sidecar refuses the configuration.
        NothingChosen: no case fits the filters.
    """
    golden = read_golden_set(options.sets or options.folder / SETS)
    configuration = read_configuration(options.folder, options.candidates)
    capabilities = capabilities_of(configuration)
    if not earlier and (wrong := list(unknown_capabilities(golden, capabilities))):
        raise UnusableFile("\n".join(wrong))
    missing = gaps(golden, configuration.slots, capabilities) if options.choice.whole else ()
    others = tuple(
        f"{slot}: " for slot in configuration.slots if options.choice.slots and slot not in options.choice.slots
    )
    cases = options.choice.of(golden.cases)
    return Prepared(configuration, golden, cases, [one for one in missing if not one.startswith(others)])


async def run(
    prepared: Prepared, options: Measuring, told: Callable[[Trial], None] = lambda _: None, models: Models | None = None
) -> Run:
    """Start a sidecar, play every case on it, and return the results.

    Args:
        prepared: inputs of the run, from `prepare`.
        options: the options of the run.
        told: of each trial as soon as it is over.
        models: instead of those that the wish names, e.g. for a model that `init_chat_model` does not know.

    Raises:
        StageFailed: the sidecar did not start.
        ModelFailed: a model cannot be made, or no turn came to its end.
    """
    begun = time.monotonic()
    chosen = models or models_of(options)
    judge = model_of(options.judge) if options.judge else None
    async with started_environment(prepared.configuration, prepared.golden.suite) as stage:
        director = Director(stage, prepared.configuration, prepared.golden, chosen)
        trials = await director.play(prepared.cases, options.how, told)
    if all(one.observed.problem for one in trials):
        raise ModelFailed(f"no turn came to its end; {trials[0].case_id}: {trials[0].observed.problem}")
    trials = await with_judgements(trials, prepared.golden, judge)
    definitions = prepared.configuration.definitions
    unjudged = [f"{one.case_id}: {one.unjudged}" for one in trials if one.unjudged]
    return Run(
        run_id=uuid4().hex,
        recorded_at=datetime.now(UTC).replace(microsecond=0),
        configuration=str(options.folder),
        model=options.model,
        summary_model=options.summary_model or options.model,
        judge_model=options.judge,
        definitions=measured_definitions(definitions),
        surface_digest=surface_digest(definitions),
        repetitions=options.how.repetitions,
        gaps=[*prepared.gaps, *([f"answers that were not judged: {len(unjudged)}; {unjudged[0]}"] if unjudged else [])],
        seconds=round(time.monotonic() - begun, 3),
        metrics=measured(trials, prepared.configuration.slots),
        trials=trials,
    )


def models_of(options: Measuring) -> Models:
    """Return the models that the options name."""
    router = model_of(options.model)
    return Models(router, model_of(options.summary_model) if options.summary_model else router)


def model_of(name: str) -> BaseChatModel:
    """Return a model by the name that LangChain's `init_chat_model` takes, or the built-in router.

    Raises:
        ModelFailed: there is no such model here: its provider is unknown, or its package or key is missing.
    """
    if name == OFFLINE:
        return LexicalRouter()
    from langchain.chat_models import init_chat_model  # noqa: PLC0415  imports providers, which the router needs none of

    try:
        made: BaseChatModel = init_chat_model(name)
    except Exception as error:  # noqa: BLE001  each provider's client has its own exceptions
        raise ModelFailed(f"the model {name!r} cannot be used: {str(error).partition(chr(10))[0]}") from None
    return made
