"""The rules of the journal with a defect: their modules made anew from sources in which something was replaced."""

import importlib.util
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Final

from sidecar.core.journal import heads, rules, transitions

MODULES: Final = (heads, transitions, rules)
"""Each one imports those before it."""


def rules_with(replaced: Mapping[str, str]) -> ModuleType:
    """Return the module of the rules, made with other sources.

    Args:
        replaced: a piece of source that occurs once in one of the modules, and what takes its place.
    """
    sources = {module.__name__: importlib.util.find_spec(module.__name__) for module in MODULES}
    texts = {name: _text_of(spec.origin) for name, spec in sources.items() if spec is not None and spec.origin}
    for before, now in replaced.items():
        assert sum(text.count(before) for text in texts.values()) == 1, before
        texts = {name: text.replace(before, now) for name, text in texts.items()}
    try:
        for name, text in texts.items():
            made = ModuleType(name)
            sys.modules[name] = made
            exec(compile(text, f"{name} with a defect", "exec"), made.__dict__)
        return sys.modules[rules.__name__]
    finally:
        sys.modules.update({module.__name__: module for module in MODULES})


def _text_of(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
