"""Converts settings to the plain values that operations and plugins take.

Operations do not import the settings, so that they can be tested, simulated and replayed without a settings file.
"""

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from sidecar.adapters.reports_directory import ReportsDirectory, ReportsDirectoryUnusable
from sidecar.adapters.system import SecretFileProblem, read_secret, read_secrets
from sidecar.core.binding.bind import BindingRules
from sidecar.core.binding.surface_token import KeySet, SigningKeys
from sidecar.core.dispatching.cost_budget import CostBudgets
from sidecar.core.dispatching.money import units
from sidecar.core.dispatching.result_checks import ResultLimits
from sidecar.core.envelopes.limits import EnvelopeLimits
from sidecar.core.envelopes.signatures import SignatureRules
from sidecar.core.executing.retries import BreakerRules, RetryRules
from sidecar.core.history.compaction import CompactionRules
from sidecar.core.identifiers import Vertical
from sidecar.core.status_events.policy import EventRule, Vocabulary
from sidecar.observability import event_names
from sidecar.observability.audit.plugin import LOG_SINK, OTLP_SINK
from sidecar.observability.logging import StructuredLog
from sidecar.observability.redaction import Redactor
from sidecar.operations.flag_snapshot import FlagTiming
from sidecar.operations.rules import AdmissionRules, DispatchRules, HistoryRules
from sidecar.policy.kinds import PluginKind
from sidecar.policy.selection import PolicyNames, PolicySettings
from sidecar.settings import DispatchSettings, KeysSettings, Settings, SettingsProblem
from sidecar.settings.history import HistorySettings
from sidecar.settings.sections import DefinitionsSettings, SignatureSettings

MADE_KEY: Final = "made"
"""The id of the signing key that the sidecar creates if none is configured."""
KEY_BYTES: Final = 32
"""As long as the hash of the signature: a longer key adds no strength."""
Texts = TypeVar("Texts")


def dispatch_rules(settings: Settings, redactor: Redactor) -> DispatchRules:
    """Return the operator's settings for dispatching.

    Raises:
        SettingsProblem: a key file of `signatures` cannot be used.
    """
    configured = settings.dispatch
    return DispatchRules(
        binding=BindingRules(configured.fan_out_cap, configured.max_dispatches_per_turn),
        vocabulary=_vocabulary(settings),
        join_timeout=configured.join_timeout,
        delivery_margin=configured.delivery_margin,
        turn_lifetime=configured.turn_lifetime,
        idle_lifetime=configured.idle_lifetime,
        resume_grace=configured.resume_grace,
        record_poll_interval=configured.record_poll_interval,
        record_timeout=configured.record_timeout,
        episode_lookup_timeout=configured.episode_lookup_timeout,
        strict_prior_context=configured.strict_prior_context,
        replay_buffer_events=configured.replay_buffer_events,
        cancel_grace=configured.cancel_grace,
        episodes_cached=configured.episodes_cached,
        question_lifetime=configured.question_lifetime,
        cost=CostBudgets(_units(configured.cost.per_turn_usd), _units(configured.cost.per_principal_and_day_usd)),
        admission=AdmissionRules(**_plain(configured.admission)),
        retries=_retries(configured),
        breaker=BreakerRules(configured.breaker.failure_threshold, configured.breaker.open_duration.total_seconds()),
        results=_result_limits(configured),
        envelopes=EnvelopeLimits(**_plain(configured.envelopes)),
        signatures=signature_rules(settings, redactor),
        history=_history(settings.history),
        record_frames=settings.record.frames,
    )


def _units(usd: float | None) -> int | None:
    # Whole units and no fractions of a dollar: sums of many small costs stay exact.
    return None if usd is None else units(usd)


def _history(configured: HistorySettings) -> HistoryRules:
    return HistoryRules(
        compaction=CompactionRules(
            configured.compact_above_tokens, configured.compact_above_turns, configured.recent_turns
        ),
        own_turns=configured.own_turns,
        episode_turns=configured.episode_turns,
        answer_bytes=configured.answer_bytes,
        queue=configured.queue,
        timeout=configured.timeout,
        catch_up_window=configured.catch_up_window,
        catch_up_max_turns=configured.catch_up_max_turns,
        size_cache_ttl=configured.size_cache_ttl,
    )


def report_files(settings: Settings) -> ReportsDirectory | None:
    """Return the directory of reports; None if reports are not written.

    Raises:
        SettingsProblem: the directory cannot be used.
    """
    directory = settings.workspace.directory
    if directory is None:
        return None
    try:
        return ReportsDirectory(directory)
    except ReportsDirectoryUnusable as problem:
        raise SettingsProblem([f"workspace.directory: {problem}"]) from None


def flag_timing(settings: Settings) -> FlagTiming:
    """Return the intervals at which flags are fetched."""
    return FlagTiming(**_plain(settings.flag_refresh))


def policy_settings(settings: Settings) -> PolicySettings:
    """Return the selection of plugins."""
    configured = settings.policy
    # No default is filled in for `memory` here: a vertical that chooses none uses the choice of `policy.default`.
    verticals = {Vertical(name): PolicyNames(**_plain(names)) for name, names in configured.verticals.items()}
    # The default follows the record: conversations that outlive a record in memory would belong to no recorded turn.
    memory = configured.default.memory or ("in_process" if settings.record.database == "memory" else "store")
    default = PolicyNames(**{**_plain(configured.default), "memory": memory})
    return PolicySettings(default, verticals, _sinks(settings))


def policy_by_default() -> PolicySettings:
    """Return the selection of plugins without a settings file."""
    # The two required values do not influence the selection.
    return policy_settings(
        Settings(definitions=DefinitionsSettings(path=Path()), dispatch=DispatchSettings(fan_out_cap=1))
    )


def _sinks(settings: Settings) -> tuple[str, ...]:
    if settings.audit.sinks is not None:
        return settings.audit.sinks
    # Audit events always go to the log unless the settings say otherwise, so that no deployment is without an audit.
    return (LOG_SINK.name,) if settings.telemetry.otlp_endpoint is None else (LOG_SINK.name, OTLP_SINK.name)


def plugin_sections(settings: Settings) -> Mapping[PluginKind, Mapping[str, Mapping[str, Any]]]:
    """Return the settings of instances by kind and name, including the key `plugin`."""
    return {
        PluginKind.FLAG_BACKEND: settings.flags,
        PluginKind.RUNNER: settings.runners,
        PluginKind.CONNECTOR: settings.connectors,
        PluginKind.EPISODE_MEMORY: settings.memories,
        PluginKind.GATE_CLIENT: settings.gates,
        PluginKind.LIFECYCLE_POLICY: settings.lifecycle,
        PluginKind.AUDIT_SINK: settings.audit_sinks,
    }


def made_keys() -> SigningKeys:
    """Create a signing key that no other replica has, and log that."""
    # A warning on every start: nothing else shows that turns end with this process.
    StructuredLog("sidecar.keys").warning(
        event_names.KEY_MADE,
        "no signing key is configured: turns do not outlive this process, and no other replica honours them; "
        "set keys.files to change that",
    )
    return SigningKeys({MADE_KEY: secrets.token_bytes(KEY_BYTES)}, MADE_KEY)


def signing_keys(settings: KeysSettings, redactor: Redactor) -> KeySet:
    """Read the keys in the files.

    Raises:
        SettingsProblem: lists every key file that cannot be used.
    """
    texts = _texts_in("keys.files", settings.files, read_secrets)
    # Before the keys are used: a later error may quote them.
    redactor.learn(key for file_keys in texts.values() for key in file_keys)
    # A file may hold several keys, e.g. the old and the new one during a rotation.
    keys = {key_id: tuple(key.encode() for key in file_keys) for key_id, file_keys in texts.items()}
    # Without a choice, the first key signs; all keys verify.
    return KeySet(keys, settings.signing or next(iter(keys)))


def signature_keys(settings: SignatureSettings, redactor: Redactor) -> Mapping[str, bytes]:
    """Read the keys of data services in the files.

    Raises:
        SettingsProblem: lists every key file that cannot be used.
    """
    texts = _texts_in("signatures.files", settings.files, read_secret)
    # Before the keys are used: a later error may quote them.
    redactor.learn(texts.values())
    return {key_id: text.encode() for key_id, text in texts.items()}


def signature_rules(settings: Settings, redactor: Redactor) -> SignatureRules:
    """Return which data services must sign their answers, and their keys, which are read from files.

    Raises:
        SettingsProblem: lists every key file that cannot be used.
    """
    configured, policy = settings.signatures, settings.policy
    # A vertical without a connector of its own uses the default one.
    chosen = ((Vertical(name), names.connector) for name, names in policy.verticals.items())
    return SignatureRules(
        keys=signature_keys(configured, redactor),
        connectors=tuple(configured.connectors),
        verticals=tuple(configured.verticals),
        tools=tuple(configured.tools),
        connector_of={vertical: connector for vertical, connector in chosen if connector is not None},
        default_connector=policy.default.connector,
    )


def _texts_in(setting: str, files: Mapping[str, Path], read: Callable[[Path], Texts]) -> dict[str, Texts]:
    """Return what `read` returns for each key file, by the key's id. Raises `SettingsProblem` with all problems."""
    texts: dict[str, Texts] = {}
    problems: list[str] = []
    for key_id, file in files.items():
        try:
            texts[key_id] = read(file)
        except SecretFileProblem as problem:
            # Collected, so that an operator corrects all files before the next attempt.
            problems.append(f"{setting}.{key_id}: {problem}")
    if problems:
        raise SettingsProblem(problems)
    return texts


def _vocabulary(settings: Settings) -> Vocabulary:
    configured = settings.status
    rules = {name: EventRule(rule.policy, rule.transform_to, rule.window) for name, rule in configured.events.items()}
    return Vocabulary(rules, configured.per_second, configured.burst, configured.still_working_after or None)


def _retries(settings: DispatchSettings) -> RetryRules:
    configured = settings.retries
    return RetryRules(
        first_backoff=configured.initial_backoff.total_seconds(),
        longest_backoff=configured.max_backoff.total_seconds(),
        share=configured.budget_ratio,
        floor=configured.budget_min,
        window=configured.window.total_seconds(),
    )


def _result_limits(settings: DispatchSettings) -> ResultLimits:
    limits = settings.results
    return ResultLimits(
        narration=limits.max_narration_chars,
        component=limits.max_component_chars,
        components=limits.max_components,
        events=limits.max_events,
        silence=limits.idle_timeout,
    )


def _plain(section: Any) -> dict[str, Any]:
    """Return the fields of a section. They have the same names and units as the value that is built from them."""
    return {name: getattr(section, name) for name in type(section).SETTINGS}
