"""Checks flag backends: whether they answer, and whether they know the flags of the definitions.

A backend of an installed plugin runs in a thread, as in a running sidecar. If it blocks, doctor reports that and begins
the next check.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from sidecar.adapters.flags_embedded import EMBEDDED_FLAGS
from sidecar.adapters.plugin_threads.threads import PluginThreads
from sidecar.adapters.system.tasks import OwnedTasks, closed
from sidecar.core.definitions.cards.card import Catalogue
from sidecar.core.flag_states import FlagReport
from sidecar.operations.plugin_calls import PluginCalls, PluginFailed
from sidecar.operations.process.findings import Finding, error, ok, warning
from sidecar.policy.factory import make_flag_backend
from sidecar.policy.flags import FlagBackend, NamedFlagBackend
from sidecar.policy.problems import PluginProblem, cause_of
from sidecar.policy.selection import PolicyMap
from sidecar.settings import Settings

AREA: Final = "flags"


async def examine_flags(
    settings: Settings, policy: PolicyMap, catalogue: Catalogue | None, seconds: float
) -> Sequence[Finding]:
    """Return a finding for each flag backend in use, except `embedded`, which is a part of the record."""
    findings: list[Finding] = []
    plugin_threads = PluginThreads(policy.host, lambda kind, details: None)
    # A call that exceeds its limit is abandoned, not awaited. `asyncio.run` cancels it at the end, so that the process
    # can end.
    calls = PluginCalls(OwnedTasks(lambda name, error: None), lambda plugin, count: None)
    for spec in policy.flag_backends:
        if spec.factory is EMBEDDED_FLAGS.factory:
            findings.append(ok(AREA, spec.name, "flags are kept in the record"))
            continue
        names = _flags_of_definitions(policy, catalogue, spec.name)
        try:
            backend = plugin_threads.made(spec, partial(make_flag_backend, spec, settings.flags.get(spec.name, {})))
        except PluginProblem as problem:
            findings.append(error(AREA, spec.name, problem.what, problem.remedy))
            continue
        try:
            report = await calls.ask(spec.name, seconds, partial(_fetch, backend, names))
        except PluginFailed as problem:
            remedy = f"is the service running? See [flags.{spec.name}] in the settings"
            why = cause_of(problem.error) if problem.error else str(problem)
            findings.append(error(AREA, spec.name, f"does not answer: {why}", remedy))
        else:
            findings += _findings_about(spec.name, report, names)
        finally:
            # With a time limit of its own: a backend that hangs in `close` must not hide the findings.
            await closed(backend.close)
    return findings


def _flags_of_definitions(policy: PolicyMap, catalogue: Catalogue | None, backend: str) -> frozenset[str]:
    cards = catalogue.cards.values() if catalogue else ()
    definitions = (each.definition for each in cards if policy.of(each.definition.vertical).flags.name == backend)
    return frozenset(flag for each in definitions for flag in (each.enabled_via_flag, each.cohort_flag) if flag)


async def _fetch(backend: FlagBackend, names: frozenset[str]) -> FlagReport:
    # A backend that cannot list its flags must know their names before it is asked.
    if isinstance(backend, NamedFlagBackend):
        backend.set_names(names)
    return await backend.fetch()


def _findings_about(backend: str, report: FlagReport, names: frozenset[str]) -> Iterator[Finding]:
    # A warning and no error: a start accepts an unclear flag, and treats it as off.
    unclear = sorted(names & report.unclear)
    if unclear:
        text = f"cannot tell the state of {', '.join(unclear)}: these sub-agents serve no user"
        yield warning(AREA, backend, text, "check these flags in the backend")
    on = sorted(names & report.on)
    yield ok(AREA, backend, f"answers; {len(on)} of the {len(names)} kill and cohort flags of the definitions are on")
