"""Check (d): what may not change under an id, and what may change only with an override. Also runs all four checks.

The lifecycle state makes no difference (TN-69): the base branch decides, and an id that it does not have is new.
Source: PF1-D-58, PF1-D-59, TN-67.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from sidecar.core.definitions.cards.card import AgentDefinition, ModelEntry, PromptBlock, ToolEntry
from sidecar.core.definitions.changes import Changes, FieldChange, changes_between, nested_changes
from sidecar.core.definitions.files.documents import Entry, SourceLocation
from sidecar.core.definitions.files.names import REQUIRED_BLOCKS, SUBAGENT_FLAG_PREFIX
from sidecar.core.definitions.files.problems import printable, quoted
from sidecar.core.definitions.files.registries import Registries, Registry
from sidecar.core.definitions.review.overrides import (
    COMMENT,
    TRAILER,
    block_subject,
    model_subject,
    override_reasons,
    reasons_of_trailers,
    tool_subject,
)
from sidecar.core.definitions.review.references import (
    MAJOR_MESSAGE,
    Check,
    Comparison,
    Finding,
    Severity,
    finding_at,
    loads,
    resolves,
    unreferenced,
)

FLAG_FIELD: Final = "enabled_via_flag"

Part = TypeVar("Part", ModelEntry, ToolEntry, PromptBlock)


def findings_of(compared: Comparison, skipped: frozenset[Check] = frozenset()) -> Iterator[Finding]:
    """Yield the findings of every enabled check, check after check."""
    if Check.LOADS not in skipped:
        yield from loads(compared.head)
    if Check.RESOLVES not in skipped:
        yield from resolves(compared.head, compared.rolled_back)
    if Check.UNREFERENCED not in skipped:
        yield from unreferenced(compared.base, compared.head)
    if Check.IN_PLACE not in skipped:
        yield from changed_in_place(compared)


def changed_in_place(compared: Comparison) -> Iterator[Finding]:
    """Check (d), for definitions and for the blocks, tools and models that they share."""
    before, after = compared.base.registries, compared.head.registries
    overrides = _Overrides.of(compared)
    # Ids whose flags have no effect any more, so their entries may drop them.
    over = compared.flags_retired | compared.rolled_back
    for name, entry in after.agents.entries.items():
        old = before.agents.get(name)
        if old is None:
            yield from _starts_unflagged(entry, after)
            continue
        changes = changes_between(old, entry.value)
        # Removed or replaced: either way, the flag that an operator relies on to stop the definition would have no
        # effect.
        dropped = old.enabled_via_flag not in {None, entry.value.enabled_via_flag}
        if dropped and old.id not in over:
            yield _flag_dropped(entry.place, old.id, str(old.enabled_via_flag))
            # Reported above as an error that nothing overrides; as a minor change it could be overridden by a comment.
            changes = Changes(changes.major, tuple(each for each in changes.minor if each.field != FLAG_FIELD))
        yield from _changes(entry.place, changes, name, (name,), overrides)
    users = _users(before, after)
    yield from _shared(before.models, after.models, model_subject, users, overrides)
    yield from _shared(before.tools, after.tools, tool_subject, users, overrides)
    yield from _shared(before.blocks, after.blocks, block_subject, users, overrides)


def _flag_dropped(place: SourceLocation, name: str, flag: str) -> Finding:
    """Return the error for an entry that drops the flag that gates it; nothing overrides it (TN-59, PF1-D-35)."""
    text = (
        f"no longer names {quoted(flag)}, which gates {quoted(name)} until an operator retires it: put it back. "
        f"At 100 %, run `sidecar subagent retire-flags {name} --reason …`, and show this check that it is done: "
        "`sidecar subagent list --json > FILE`, then --rollout-export FILE"
    )
    return finding_at(place.at(FLAG_FIELD), Check.IN_PLACE, Severity.ERROR, text)


def _starts_unflagged(entry: Entry[AgentDefinition], after: Registries) -> Iterator[Finding]:
    """Warn of a new entry without a flag: no step can promote it. Source: PF1-FR-3a."""
    new = entry.value
    others = [each.value for each in after.agents.entries.values() if each.value.id != new.id]
    # As in `may_be_rolled_out`: an orchestrator that no entry lists takes no rollout steps.
    listed = any(new.slot in each.sub_agents for each in others)
    if new.enabled_via_flag is None and not new.deprecated and (listed or not new.is_orchestrator):
        text = (
            "is new and names no flag: it starts at `dev`, serves no user, and cannot be promoted. "
            f"Add `{FLAG_FIELD}: {SUBAGENT_FLAG_PREFIX}{new.id}`"
        )
        # The setting applies only to an entry that is alone in its slot.
        if all(each.slot != new.slot for each in others):
            text += ", unless the sidecars that load it have rollout.auto_promote_unflagged on"
        yield finding_at(entry.place.at(FLAG_FIELD), Check.IN_PLACE, Severity.WARNING, text)


@dataclass(frozen=True, slots=True)
class _Overrides:
    """The reasons given in this change, and older ones, by subject."""

    fresh: Mapping[str, frozenset[str]]
    stale: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, compared: Comparison) -> "_Overrides":
        stale = override_reasons(compared.base.registries, compared.base.annotations)
        now = override_reasons(compared.head.registries, compared.head.annotations)
        trailers = reasons_of_trailers(compared.trailers)
        # A comment that the base has as well was written for an earlier change, so it does not permit this one.
        fresh = {subject: reasons - stale.get(subject, frozenset()) for subject, reasons in now.items()}
        for subject, reasons in trailers.items():
            fresh[subject] = fresh.get(subject, frozenset()) | reasons
        return cls(fresh, stale)

    def of_subject(self, subject: str, users: tuple[str, ...]) -> tuple[str, ...]:
        """Return the reasons for a subject, or those of all its users; empty: the change is not overridden."""
        own = self.fresh.get(subject)
        if own:
            return tuple(sorted(own))
        theirs = [self.fresh.get(user, frozenset()) for user in users]
        # All users and not any: a change of a shared part reaches each of them.
        return tuple(sorted(frozenset[str]().union(*theirs))) if theirs and all(theirs) else ()


def _changes(
    place: SourceLocation, changes: Changes, subject: str, users: tuple[str, ...], overrides: _Overrides
) -> Iterator[Finding]:
    if changes.major:
        details = tuple(change.text for change in changes.major)
        at = place.at(changes.major[0].field)
        yield finding_at(at, Check.IN_PLACE, Severity.ERROR, MAJOR_MESSAGE, details)
    if changes.minor:
        yield _minor(place, changes.minor, subject, users, overrides)
    for change in changes.minor:
        if change.caution:
            yield finding_at(place.at(change.field), Check.IN_PLACE, Severity.WARNING, change.caution, (change.text,))


def _minor(
    place: SourceLocation, changes: tuple[FieldChange, ...], subject: str, users: tuple[str, ...], overrides: _Overrides
) -> Finding:
    details = tuple(change.text for change in changes)
    at = place.at(changes[0].field)
    reasons = overrides.of_subject(subject, users)
    if reasons:
        text = "minor change in place, overridden: " + "; ".join(printable(reason) for reason in reasons)
        return finding_at(at, Check.IN_PLACE, Severity.NOTICE, text, details)
    # A leftover comment looks like an override: the author must learn why it does not count.
    old = "; the override there is older than this change" if overrides.stale.get(subject) else ""
    text = (
        f"a minor change in place needs an explicit override: the comment `# {COMMENT} <reason>` here, or the commit "
        f"trailer `{TRAILER}: {subject} <reason>`{old} (FR-12)"
    )
    return finding_at(at, Check.IN_PLACE, Severity.ERROR, text, details)


def _shared(
    before: Registry[Part],
    after: Registry[Part],
    subject_of: Callable[[str], str],
    users: Mapping[str, tuple[str, ...]],
    overrides: _Overrides,
) -> Iterator[Finding]:
    """Yield the changes of shared parts that exist, and are used, in both versions."""
    for name, entry in after.entries.items():
        old, subject = before.get(name), subject_of(name)
        # A part that is new, or used by no definition in both versions, changes no definition that may be promoted.
        if old is not None and subject in users:
            minor = nested_changes(old, entry.value)
            yield from _changes(entry.place, Changes((), minor), subject, users[subject], overrides)


def _users(before: Registries, after: Registries) -> Mapping[str, tuple[str, ...]]:
    """Return, for each shared part, the ids of the definitions that use it in both versions, in file order."""
    users: dict[str, list[str]] = {}
    for name in after.agents.ids:
        if name in before.agents:
            earlier = frozenset(_uses(before, name))
            for subject in _uses(after, name):
                # A definition that begins to use a part is changed itself, which `changes_between` reports.
                if subject in earlier:
                    users.setdefault(subject, []).append(name)
    return {subject: tuple(names) for subject, names in users.items()}


def _uses(registries: Registries, name: str) -> Iterator[str]:
    definition = registries.agents[name]
    yield model_subject(definition.model)
    yield from (tool_subject(tool) for tool in dict.fromkeys(definition.tools))
    yield from (block_subject(block) for block in dict.fromkeys((*REQUIRED_BLOCKS, *definition.prompt_blocks)))
