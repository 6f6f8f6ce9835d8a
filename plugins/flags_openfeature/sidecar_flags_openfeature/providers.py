"""Creates the provider that the settings name. This reads the files of secrets, but connects to nothing."""

import importlib
import json
import os
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from openfeature.provider import FeatureProvider

from sidecar.policy.targets import problem_with_url
from sidecar_flags_openfeature.settings import OpenFeatureSettings

FLAGD: Final[Mapping[str, Any]] = {
    "retry_backoff_max_ms": 1000,
    "retry_grace_period": 2,
    "deadline_ms": 500,
    "sync_metadata_disabled": True,
}
"""Default options: a lost connection is STALE after about one second, instead of five seconds in flagd's provider."""
OFREP: Final[Mapping[str, Any]] = {"timeout": 1.0}
"""Default options; the timeout, in seconds, is below the sidecar's deadline, so that the thread of a fetch ends."""
LONGEST_SECRET: Final = 16 * 1024
"""Maximum bytes of a file of secrets; the rest is ignored."""


class Made(NamedTuple):
    """A provider, and a function whose value identifies its source. When this value changes, a new provider is made."""

    provider: FeatureProvider
    source: Callable[[], object]


def maker_of(settings: OpenFeatureSettings) -> Callable[[], Made]:
    """Return a function that creates a new provider with each call.

    Raises:
        ValueError: a library is missing, or the provider does not exist.
    """
    if settings.provider == "flagd":
        return lambda: _flagd(settings)
    if settings.provider == "ofrep":
        return lambda: _ofrep(settings)
    named = _named(settings.provider)
    return lambda: Made(named(**settings.options, **_secrets(settings)), lambda: None)


def _flagd(settings: OpenFeatureSettings) -> Made:
    try:
        from openfeature.contrib.provider.flagd import FlagdProvider  # noqa: PLC0415  its library is an extra
        from openfeature.contrib.provider.flagd.config import ResolverType  # noqa: PLC0415  the same library
    except ModuleNotFoundError:
        raise ValueError("needs the extra: pip install 'sidecar-flags-openfeature[flagd]'") from None
    said = {**FLAGD, "resolver_type": "in-process", **settings.options, **_secrets(settings)}
    said["resolver_type"] = ResolverType(said["resolver_type"])
    provider = FlagdProvider(**said)
    if provider.config.offline_flag_source_path is not None:
        file = Path(provider.config.offline_flag_source_path)
        return Made(provider, lambda: _known_by(file))
    if provider.config.resolver is ResolverType.IN_PROCESS:
        return Made(provider, lambda: _told_by_flagd(provider))
    return Made(provider, lambda: None)


def _known_by(file: Path) -> object:
    """Return a value that changes with a file. The provider itself only detects newer times, not an older copy."""
    try:
        seen = os.stat(file)
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_size, seen.st_ino


def _told_by_flagd(provider: Any) -> object:
    """Request all flags of flagd, and return their hash.

    The request is necessary because the provider stays READY with its old flags while flagd hangs or sends unreadable
    flags.

    Raises:
        Exception: flagd does not answer, or its answer is not a set of flags.
    """
    from openfeature.schemas.protobuf.flagd.sync.v1 import sync_pb2  # noqa: PLC0415  its library is an extra

    config, stub = provider.config, provider.resolver.connector.stub
    asked = sync_pb2.FetchAllFlagsRequest(selector=config.selector or "")
    metadata = None if config.selector is None else (("flagd-selector", config.selector),)
    told = stub.FetchAllFlags(asked, timeout=config.deadline_ms / 1000, metadata=metadata).flag_configuration
    if not isinstance(json.loads(told).get("flags"), dict):
        raise ValueError("flagd sent no set of flags")
    return sha256(told.encode()).digest()


def _ofrep(settings: OpenFeatureSettings) -> Made:
    try:
        from openfeature.contrib.provider.ofrep import OFREPProvider  # noqa: PLC0415  its library is an extra
    except ModuleNotFoundError:
        raise ValueError("needs the extra: pip install 'sidecar-flags-openfeature[ofrep]'") from None
    options = {**OFREP, **settings.options}
    problem = problem_with_url(
        str(options.get("base_url", "")), "an attacker who can change the answer can switch flags"
    )
    if problem is not None:
        raise ValueError(f"options.base_url {problem}")
    provider = OFREPProvider(**options, headers_factory=lambda: _secrets(settings))
    provider.session.trust_env = False  # no proxy, and no password of a .netrc, from the environment
    return Made(provider, lambda: None)


def _named(provider: str) -> Callable[..., FeatureProvider]:
    module, _, name = provider.partition(":")
    try:
        found: Callable[..., FeatureProvider] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"provider: {provider} cannot be imported ({type(error).__name__})") from None
    return found


def _secrets(settings: OpenFeatureSettings) -> dict[str, str]:
    """Read the files of secrets. Raises `ValueError`, which says nothing of what is in them."""
    return {name: _secret_in(name, file) for name, file in settings.secret_files.items()}


def _secret_in(name: str, file: Path) -> str:
    try:
        with file.open("rb") as opened:
            secret = opened.read(LONGEST_SECRET).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"secret_files.{name} cannot be read ({type(error).__name__})") from None
    if not secret or not secret.isprintable():
        raise ValueError(f"secret_files.{name} holds no secret")
    return secret
