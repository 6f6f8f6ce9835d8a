"""Gate clients and lifecycle policies as the settings choose them, each behind a border of its own.

One that cannot be made holds, or denies, the steps of the verticals that chose it, with the reason; so does one that
hangs. Everything else works on.
"""

from sidecar.adapters.step_checks.chosen import ChosenGates, ChosenPolicies
from sidecar.adapters.step_checks.gates import BrokenGate, GuardedGate
from sidecar.adapters.step_checks.policies import BrokenPolicy, PolicyThreads

__all__ = ["BrokenGate", "BrokenPolicy", "ChosenGates", "ChosenPolicies", "GuardedGate", "PolicyThreads"]
