"""Which gate client and which policies answer for a vertical, made from the settings."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sidecar.adapters.step_checks.gates import BrokenGate, GuardedGate
from sidecar.adapters.step_checks.policies import BrokenPolicy
from sidecar.core.identifiers import Vertical
from sidecar.policy.factory import make_gate_client, make_lifecycle_policy
from sidecar.policy.lifecycle import GateClient, LifecyclePolicy
from sidecar.policy.problems import PluginProblem
from sidecar.policy.selection import ANY_GATE, PolicyMap, VerticalPlugins
from sidecar.policy.specs import GateClientSpec, LifecyclePolicySpec

Sections = Mapping[str, Mapping[str, Any]]
"""Settings by plugin name."""
OnProblem = Callable[[str, str], None]
"""Told of what could not be made: the kind of anomaly, and what and why."""


class ChosenGates:
    """The gate clients in use. A vertical with settings of its own has clients of its own.

    Args:
        policy: who is served by what.
        sections: `[gates]`.
        on_problem: told of each client that could not be made.
    """

    def __init__(self, policy: PolicyMap, sections: Sections, on_problem: OnProblem) -> None:
        """Make them all."""
        self._sections = sections
        self._on_problem = on_problem
        self._all: list[GateClient] = []
        self._default = self._made_for(policy.default)
        self._verticals = {vertical: self._made_for(plugins) for vertical, plugins in policy.verticals.items()}

    def client_for(self, vertical: Vertical, gate: str) -> GateClient | None:
        """Return the client of a gate; None: there is none."""
        gates = self._verticals.get(vertical, self._default)
        return gates.get(gate) or gates.get(ANY_GATE)

    async def close(self) -> None:
        """Close them all, at the same time."""
        await asyncio.gather(*(client.close() for client in self._all))

    def _made_for(self, plugins: VerticalPlugins) -> Mapping[str, GateClient]:
        by_name = {spec.name: self._made(spec) for spec in plugins.gates.values()}
        self._all.extend(by_name.values())
        return {gate: by_name[spec.name] for gate, spec in plugins.gates.items()}

    def _made(self, spec: GateClientSpec) -> GateClient:
        try:
            return GuardedGate(spec.name, make_gate_client(spec, self._sections.get(spec.name, {})))
        except PluginProblem as problem:
            self._on_problem("gate_client_broken", f"{spec.name}: {problem}")
            return BrokenGate(problem.what)


class ChosenPolicies:
    """The lifecycle policies in use. A vertical with settings of its own has policies of its own.

    Args:
        policy: who is served by what.
        sections: `[lifecycle]`.
        on_problem: told of each policy that could not be made.
    """

    def __init__(self, policy: PolicyMap, sections: Sections, on_problem: OnProblem) -> None:
        """Make them all."""
        self._sections = sections
        self._on_problem = on_problem
        self._default = self._made_for(policy.default)
        self._verticals = {vertical: self._made_for(plugins) for vertical, plugins in policy.verticals.items()}

    def of_vertical(self, vertical: Vertical) -> Sequence[tuple[str, LifecyclePolicy]]:
        """Return the named policies of a vertical, in order, without the platform's."""
        return self._verticals.get(vertical, self._default)

    def _made_for(self, plugins: VerticalPlugins) -> Sequence[tuple[str, LifecyclePolicy]]:
        return tuple((spec.name, self._made(spec)) for spec in plugins.lifecycle)

    def _made(self, spec: LifecyclePolicySpec) -> LifecyclePolicy:
        try:
            return make_lifecycle_policy(spec, self._sections.get(spec.name, {}))
        except PluginProblem as problem:
            self._on_problem("policy_broken", f"{spec.name}: {problem}")
            return BrokenPolicy(problem.what)
