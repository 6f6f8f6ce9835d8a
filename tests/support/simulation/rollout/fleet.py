"""The sidecars of a run, dead and alive: started, killed, paused and given another configuration."""

from contextvars import Context

from tests.support.simulation.record.processes import State
from tests.support.simulation.rollout import cards
from tests.support.simulation.rollout.journal import ConfigLoaded, Lived
from tests.support.simulation.rollout.replicas import Around, Replica


class Fleet:
    """The processes, dead and alive."""

    def __init__(self, around: Around) -> None:
        """Begin with none."""
        self._around = around
        self.all: list[Replica] = []
        self._variants = around.schedule.catalogues[0][1]

    def start(self, place: int) -> Replica:
        """Start the next process at a place."""
        number = sum(1 for each in self.all if each.place == place) + 1
        replica = Replica(self._around, place, number, self._variants)
        self.all.append(replica)
        replica.process.start(replica.begin(), f"begin {replica.life}")
        self._around.counted["sidecar starts again"] += number > 1
        return replica

    def at(self, place: int) -> Replica:
        """Return the newest process at a place, dead or alive."""
        return [each for each in self.all if each.place == place][-1]

    @property
    def standing(self) -> list[Replica]:
        """The processes that have not been killed."""
        return [each for each in self.all if each.alive]

    def kill(self, place: int, lasts: float) -> None:
        """End a process now; another one comes later."""
        replica = self.at(place)
        if not replica.alive:
            return
        self._around.counted["sidecar: kill"] += 1
        replica.process.kill()
        self._around.journal.add(Lived(replica.life, place, began=False))
        self._around.loop.call_later(lasts, self.start, place, context=Context())

    def pause(self, place: int, lasts: float) -> None:
        """Stop a process for a while."""
        replica = self.at(place)
        if replica.process.state is not State.RUNS:
            return
        self._around.counted["sidecar: pause"] += 1
        replica.process.pause()
        self._around.loop.call_later(lasts, replica.process.go_on, context=Context())

    def load(self, place: int, variants: cards.Variants) -> None:
        """Have a process load another configuration; those that start later load it, too."""
        self._variants = variants
        replica = self.at(place)
        if replica.alive and replica.loaded.variants != variants:
            self._around.counted["configuration changes"] += 1
            replica.loaded.load(variants)
            self._around.journal.add(ConfigLoaded(replica.life, variants))
            replica.process.within(replica.operations.definition_watch.look_soon)
