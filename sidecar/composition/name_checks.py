"""Checks the names in the settings against the definitions, at the start and at each change of the definitions.

Settings are read once; definitions change while a sidecar runs. A name that never existed prevents the start, because
it is most likely misspelt. A name that existed earlier does not: its sub-agent is recorded, and a decommission must
not prevent a restart. A change of the definitions never stops a running sidecar; the log lists the names that match
nothing any more. A sub-agent whose runner host has no address in the settings is also only logged, because a
definition may be added before its host runs.
"""

from typing import Final

from sidecar.adapters.definitions_directory.source import DefinitionsChange
from sidecar.core.definitions.cards.card import Catalogue
from sidecar.core.rollout.view import RolloutView
from sidecar.observability import event_names
from sidecar.observability.logging import StructuredLog
from sidecar.settings import Settings, SettingsProblem
from sidecar.settings.name_checks import Names, invalid_targets, missing_targets, names_of, unknown_names

LOG: Final = StructuredLog("sidecar.settings")


class NamesInSettings:
    """Compares the names in the settings with the definitions."""

    def __init__(self, settings: Settings) -> None:
        """Begin without reported problems."""
        self._settings = settings
        self._reported: tuple[str, ...] = ()

    def check_at_start(self, catalogue: Catalogue | None, view: RolloutView) -> None:
        """Refuse names that never existed. Without valid definitions, no name can be checked yet.

        Raises:
            SettingsProblem: lists all these names, and all target addresses without a scheme.
        """
        # A sidecar without valid definitions starts, but is not ready. `changed` checks the first valid state.
        if catalogue is None:
            return
        present = names_of(catalogue)
        problems = [
            # With the names on record: after a decommission, the settings may still mention a slot that the
            # configuration lost.
            *unknown_names(self._settings, present | _on_record(view)),
            *invalid_targets(self._settings, catalogue),
        ]
        if problems:
            raise SettingsProblem(problems)
        self._warn_of(catalogue)

    def changed(self, change: DefinitionsChange) -> None:
        """Log the names that do not fit a new version of the definitions, once for each new set of problems."""
        if change.loaded.catalogue is not None:
            self._warn_of(change.loaded.catalogue)

    def _warn_of(self, catalogue: Catalogue) -> None:
        settings = self._settings
        problems = (
            *unknown_names(settings, names_of(catalogue)),
            *invalid_targets(settings, catalogue),
            *missing_targets(settings, catalogue),
        )
        if problems and problems != self._reported:
            LOG.warning(
                event_names.SETTINGS_UNMATCHED, "settings and definitions do not fit together", problems=list(problems)
            )
        # Also if it is empty: a problem that was corrected and comes back is reported again.
        self._reported = problems


def _on_record(view: RolloutView) -> Names:
    """Return the slots and verticals that the recorded rollouts know."""
    slots = frozenset(str(slot) for slot in view.slots)
    definitions = (facts for rollout in view.slots.values() for facts in rollout.definitions.values())
    return Names(slots, frozenset(str(facts.vertical) for facts in definitions))
