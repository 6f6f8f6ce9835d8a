"""Chooses the runner of a card and the connector of a tool among the loaded plugins."""

from sidecar.adapters.runners.choosing import ChosenConnectors, ChosenRunners, TargetMap

__all__ = ["ChosenConnectors", "ChosenRunners", "TargetMap"]
