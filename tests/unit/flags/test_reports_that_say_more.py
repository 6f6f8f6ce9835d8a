"""What a report may say beyond on and off: shares, names that are unclear, and what it was asked for."""

import asyncio

import pytest

from sidecar.adapters.rollout_memory import MemoryRollouts, RolloutsInMemory
from sidecar.composition.rollout.flag_writers import flag_names, flag_writers
from sidecar.core.errors import StoreUnavailable
from sidecar.core.flag_states import BackendStatus, FlagReport, FlagRoutes, FlagSnapshot, FlagValue, flag_snapshot_of
from sidecar.core.identifiers import Vertical
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.view import RolloutView
from sidecar.operations.flag_snapshot import FlagSnapshotKeeper, FlagTiming, _checked
from sidecar.operations.rollout.flags.external_flags import FlagsOfPlugin
from tests.support.plugin_calls import plugin_calls
from tests.support.requirement import requirement
from tests.support.second_place import SettableClock
from tests.unit.rollout.building import SHOP, facts, rollout

ONE, TWO = "ai_assistant_subagent_shop", "ai_assistant_subagent_rewards"


def seen(report: FlagReport) -> FlagSnapshot:
    """Return a snapshot of one backend, which was heard just now."""
    return flag_snapshot_of(FlagRoutes("own"), {"own": BackendStatus(report, 0.0)}, now=0.0, max_staleness=10.0)


@requirement("PF1-T-19")
def test_a_name_that_is_unclear_or_was_not_asked_for_is_unreachable_and_not_off() -> None:
    """Else a flag that fell out of a list would look like a kill."""
    unclear = seen(FlagReport(frozenset(), "1", unclear=frozenset({ONE})))
    asked = seen(FlagReport(frozenset(), "1", asked=frozenset({TWO})))

    assert (unclear.value(ONE), unclear.value(TWO)) == (FlagValue.UNREACHABLE, FlagValue.OFF)
    assert (asked.value(ONE), asked.value(TWO)) == (FlagValue.UNREACHABLE, FlagValue.OFF)


def test_a_flag_for_a_share_of_users_is_on_and_is_not_listed_as_on_for_all() -> None:
    """No edge falls while somebody has it; a prompt block, which knows no buckets, stays out."""
    snapshot = seen(FlagReport(frozenset({ONE, TWO}), "1", shares={ONE: 2500}))

    assert (snapshot.value(ONE), snapshot.share(ONE), snapshot.share(TWO)) == (FlagValue.ON, 2500, WHOLE)
    assert snapshot.active_flags(frozenset({ONE, TWO})) == (TWO,)


@pytest.mark.parametrize(
    "report",
    [
        FlagReport(frozenset({ONE}), "1", shares={ONE: 0}),
        FlagReport(frozenset({ONE}), "1", shares={ONE: WHOLE}),
        FlagReport(frozenset({ONE}), "1", shares={ONE: 0.5}),  # type: ignore[dict-item]  # what it is about
        FlagReport(frozenset({ONE}), "1", shares={TWO: 10}),
        FlagReport(frozenset(), "1", unclear=[ONE]),  # type: ignore[arg-type]  # what it is about
        FlagReport(frozenset(), "1", asked={ONE}),  # type: ignore[arg-type]  # what it is about
    ],
)
def test_a_report_that_breaks_the_contract_is_no_contact(report: FlagReport) -> None:
    """Half an answer must not turn flags off, or give somebody a share that is none."""
    with pytest.raises((TypeError, ValueError), match="FlagReport"):
        _checked(report)


class ByName:
    """A backend that answers about what it was asked for: all of it is on."""

    names: frozenset[str] = frozenset()

    def set_names(self, names: frozenset[str]) -> None:
        """Keep them."""
        self.names = names

    async def fetch(self) -> FlagReport:
        """Answer."""
        return FlagReport(self.names, "1", asked=self.names)

    async def changed(self) -> None:
        """Never hint."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Hold nothing."""


async def test_a_backend_that_lists_no_flags_is_told_which_ones_are_read() -> None:
    """Before each fetch, and for the first time when the sidecar knows them; until then they are unreachable."""
    backend, clock = ByName(), SettableClock()
    flags = FlagSnapshotKeeper({"own": backend}, FlagRoutes("own"), clock, FlagTiming(), lambda _: None, plugin_calls())
    await flags.refresh_all()
    assert flags.current().value(ONE) is FlagValue.UNREACHABLE

    await flags.set_flag_names(lambda name: frozenset({f"of_{name}", ONE}))

    assert backend.names == {"of_own", ONE}
    assert flags.current().value(ONE) is FlagValue.ON


def test_the_names_are_those_of_the_verticals_of_a_backend() -> None:
    """Of a rollout that the configuration has dropped, too: its flags gate it until they are retired."""
    view = RolloutView({SHOP: rollout(facts("new"), active="new")})
    routes = FlagRoutes("all", {Vertical("shop"): "own"})

    assert flag_names("own", routes, None, view) == {"ai_assistant_subagent_new", "ai_assistant_subagent_new_cohort"}
    assert flag_names("all", routes, None, view) == frozenset()


class Writer:
    """A plugin that switches flags badly."""

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Raise what no contract names."""
        raise KeyError(name)

    def edit_for(self, name: str, on: bool) -> str:
        """Raise, too."""
        raise KeyError(name)


async def test_a_plugin_that_switches_badly_fails_its_own_switch_only() -> None:
    """Whatever it raises is `StoreUnavailable`, which shows nothing of it; a person is told what to do instead."""
    writer = FlagsOfPlugin("own", Writer(), plugin_calls())

    with pytest.raises(StoreUnavailable, match=rf"`own` did not switch the flag {ONE} \(KeyError\)"):
        await writer.switch(ONE, True, "ada")
    assert writer.edit_for(ONE, False) == f"own: switch {ONE} off"


class Switches(ByName):
    """A backend that switches its flags."""

    def __init__(self) -> None:
        """Begin with nothing switched."""
        self.switched: list[tuple[str, bool, str]] = []

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Remember it."""
        self.switched.append((name, on, by))

    def edit_for(self, name: str, on: bool) -> str:
        """Leave nothing to a person."""
        return ""


async def test_a_plugin_that_switches_is_the_writer_of_its_verticals() -> None:
    """Of one that does not, a person is told what to do."""
    clock, switches = SettableClock(), Switches()
    routes = FlagRoutes("reads", {Vertical("shop"): "switches"})
    store = MemoryRollouts(clock, RolloutsInMemory())
    writer_of = flag_writers({"reads": ByName(), "switches": switches}, routes, {}, store, clock, plugin_calls())

    await writer_of(Vertical("shop")).switch(ONE, True, "ada")

    assert switches.switched == [(ONE, True, "ada")]
    assert writer_of(Vertical("shop")).edit_for(ONE, True) == ""
    assert writer_of(Vertical("rewards")).edit_for(TWO, True) == f"reads: switch {TWO} on"
