"""The keys that sign tokens and receipts."""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from sidecar.composition.keys.key_files import KeyFiles
from sidecar.composition.plugins.from_settings import made_keys, signing_keys
from sidecar.core.binding.surface_token import SigningKeys
from sidecar.observability.redaction import Redactor
from sidecar.settings import KeysSettings

Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]


def followed_signing_keys(
    configured: KeysSettings, redactor: Redactor, anomaly: Callable[[str, str], None]
) -> tuple[SigningKeys, Sequence[Loop]]:
    """Return the keys, and the loops that watch their files. The redactor learns every new secret before its use.

    Raises:
        SettingsProblem: lists every key file that cannot be used.
    """
    if not configured.files:
        return made_keys(), ()
    read = partial(signing_keys, configured, redactor)
    files = KeyFiles("keys.files", tuple(configured.files.values()), read, anomaly)
    keys = SigningKeys(files.initial.secrets, files.initial.signing)
    return keys, (("signing keys", files.handing_to(keys.adopt)),)
