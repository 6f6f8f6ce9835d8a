"""All checks of `sidecar doctor`, in the order in which a starting sidecar needs the checked things."""

import asyncio
from collections.abc import Iterator

from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.composition.checked_policy import checked_policy
from sidecar.composition.doctor.files import examine_directories, examine_keys
from sidecar.composition.doctor.flags import examine_flags
from sidecar.composition.doctor.peers import examine_ops_address, examine_runners, examine_services
from sidecar.composition.doctor.record import examine_record
from sidecar.composition.doctor.sockets import examine_sockets
from sidecar.core.definitions.cards.card import Catalogue
from sidecar.operations.process.findings import Finding, error, ok, warning
from sidecar.policy.loading import BUILT_IN
from sidecar.policy.problems import PluginProblem
from sidecar.policy.selection import PolicyMap
from sidecar.settings import Settings, SettingsProblem
from sidecar.settings.name_checks import invalid_targets, names_of, unknown_names


def examine(settings: Settings, seconds: float) -> Iterator[Finding]:
    """Yield each finding as soon as its check is complete.

    Args:
        settings: the settings of the sidecar to be started.
        seconds: the time limit for each answer of a host, data service, flag backend or database.
    """
    catalogue = load_directory(settings.definitions.path, max_sub_agents=settings.definitions.max_sub_agents)
    yield from _definitions(settings, catalogue.catalogue, [each.render() for each in catalogue.problems])
    # `_plugins` fills this list if all plugins load; the checks that need plugins are skipped otherwise.
    policy: list[PolicyMap] = []
    yield from _plugins(settings, policy)
    yield from examine_sockets(settings)
    yield from examine_keys(settings)
    yield from examine_directories(settings)
    # Checks of files come first: they are instant, while a check over the network may use up its time limit.
    yield from examine_record(settings, seconds)
    yield examine_ops_address(settings.server.ops_address, str(settings.server.dispatch_socket), seconds)
    if policy:
        yield from _gates(policy[0], settings)
        yield from asyncio.run(examine_flags(settings, policy[0], catalogue.catalogue, seconds))
    if policy and catalogue.catalogue is not None:
        # A loop for each check: a client library that leaves a task behind cannot disturb the next check.
        yield from asyncio.run(examine_runners(settings, policy[0], catalogue.catalogue, seconds))
        yield from asyncio.run(examine_services(catalogue.catalogue, seconds))


def _definitions(settings: Settings, catalogue: Catalogue | None, problems: list[str]) -> Iterator[Finding]:
    area, about = "definitions", str(settings.definitions.path)
    if catalogue is None:
        remedy = f"correct the definitions; `sidecar validate {about}` prints the same problems"
        yield from (error(area, about, problem, remedy) for problem in problems)
        return
    yield ok(area, about, f"{len(catalogue.cards)} agents, {len(catalogue.tools)} tools")
    yield from (warning(area, about, problem, "not an error: a start accepts it") for problem in problems)
    # Errors here although a running sidecar only logs them: doctor examines a start, and a start would refuse these
    # names, and these addresses of runner hosts (`invalid_targets`).
    wrong = [*unknown_names(settings, names_of(catalogue)), *invalid_targets(settings, catalogue)]
    yield from (error("settings", "", problem, "correct the name in the settings") for problem in wrong)


def _plugins(settings: Settings, policy: list[PolicyMap]) -> Iterator[Finding]:
    try:
        policy.append(checked_policy(settings))
    except PluginProblem as problem:
        yield error("plugins", problem.where, problem.what, problem.remedy)
    except SettingsProblem as problem:
        yield error("plugins", "", str(problem), "correct the settings")
    else:
        installed = sorted({each.distribution for each in policy[0].host.registered.values()} - {BUILT_IN})
        yield ok("plugins", "", f"all configured plugins load; from other packages: {', '.join(installed) or 'none'}")


def _gates(policy: PolicyMap, settings: Settings) -> Iterator[Finding]:
    if not settings.operators.configured:
        remedy = "set `operators.keys` or `operators.issuer`; `sidecar token key` makes a key (docs/operators.md)"
        # No further finding about gates: without operators, no step is taken that a gate could block.
        yield warning("operators", "", "no operator can promote, ramp or stop a sub-agent", remedy)
        return
    selections = [
        ("default", policy.default),
        *((f"verticals.{name}", each) for name, each in policy.verticals.items()),
    ]
    for name, plugins in selections:
        if plugins.gates:
            yield ok("gates", name, "gate clients are configured")
        else:
            remedy = f"set `policy.{name}.gates` (docs/gates.md)"
            yield warning("gates", name, "no gate client: each gate blocks its step; nothing can be promoted", remedy)
