"""The keys of tokens and receipts, and of data services that sign: read, and followed in their files."""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from sidecar.composition.keys.key_files import KeyFiles
from sidecar.composition.plugins.from_settings import dispatch_rules, made_keys, signature_keys, signing_keys
from sidecar.core.binding.surface_token import SigningKeys
from sidecar.observability.redaction import Redactor
from sidecar.operations.rules import DispatchRules
from sidecar.settings import KeysSettings, Settings

Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]
Anomaly = Callable[[str, str], None]


def followed_signing_keys(
    configured: KeysSettings, redactor: Redactor, anomaly: Anomaly
) -> tuple[SigningKeys, Sequence[Loop]]:
    """Return the keys, and the loops that watch their files. The redactor learns every new secret before its use.

    Raises:
        SettingsProblem: lists every key file that cannot be used.
    """
    if not configured.files:
        return made_keys(), ()
    read = partial(signing_keys, configured, redactor)
    files = KeyFiles("keys.files", tuple(configured.files.values()), read, anomaly)
    # One object that is changed in place: tokens are signed and verified with it everywhere.
    keys = SigningKeys(files.initial.secrets, files.initial.signing)
    return keys, (("signing keys", files.handing_to(keys.adopt)),)


def followed_rules(settings: Settings, redactor: Redactor, anomaly: Anomaly) -> tuple[DispatchRules, Sequence[Loop]]:
    """Return the rules of dispatching, and the loops that watch the key files of data services.

    Raises:
        SettingsProblem: lists every key file that cannot be used.
    """
    rules, configured = dispatch_rules(settings, redactor), settings.signatures
    if not configured.files:
        return rules, ()
    read = partial(signature_keys, configured, redactor)
    files = KeyFiles("signatures.files", tuple(configured.files.values()), read, anomaly)
    return rules, (("keys of data services", files.handing_to(rules.signatures.adopt)),)
