"""Whatever comes from outside is decoded by `sidecar/core/decoding.py`, which raises one exception for all of it.

A file that one byte of invalid UTF-8 made unreadable once kept a sidecar from starting: the library's documentation
names two exceptions, and the library raises four.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.architecture.reading import REPOSITORY, Module, dotted, modules, planted

ONE_PLACE: Final = "sidecar.core.decoding"
OWN_FILES: Final = frozenset({"sidecar.adapters.migrations", "sidecar.cli.scaffolding.project_files"})
"""They read files of our own packages only."""
ALONE: Final = "sidecar.cli.health"
"""It imports as little as can be, and leaves every file that it cannot read to the whole command line."""
DECODERS: Final = frozenset(
    {
        *("msgspec.json.decode", "msgspec.json.Decoder", "msgspec.msgpack.decode", "msgspec.msgpack.Decoder"),
        *("msgspec.yaml.decode", "msgspec.toml.decode", "json.loads", "json.load", "json.JSONDecoder", "orjson.loads"),
        *("tomllib.loads", "tomllib.load", "pickle.loads", "pickle.load", "bytes.fromhex", "bytearray.fromhex"),
        *("base64.b64decode", "base64.urlsafe_b64decode", "binascii.unhexlify", "binascii.a2b_base64"),
    }
)
HALF_OF_IT: Final = frozenset(
    {
        *("msgspec.DecodeError", "msgspec.ValidationError", "msgspec.MsgspecError", "json.JSONDecodeError"),
        *("tomllib.TOMLDecodeError", "binascii.Error"),
    }
)
"""Exceptions that are only some of those that decoding raises."""
NEVER_FAIL: Final = frozenset({"latin-1", "iso-8859-1"})


def violations(module: Module) -> Iterator[str]:
    """Yield each place where a module decodes by itself, or catches only a part of what that raises."""
    if module.name in {ONE_PLACE, ALONE}:
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and (what := _decodes(node, module)):
            yield f"{module.at(node)} decodes by itself: {what}"
        elif isinstance(node, ast.ExceptHandler) and node.type is not None:
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            for kind in kinds:
                if dotted(kind) in HALF_OF_IT:
                    yield f"{module.at(kind)} catches {dotted(kind)}, which is not all that decoding raises"


def _decodes(call: ast.Call, module: Module) -> str:
    """Return what a call does that only the one place may do; empty if it is another call."""
    name = dotted(call.func)
    if name in DECODERS:
        return name
    if isinstance(call.func, ast.Attribute) and call.func.attr == "read_text" and module.name not in OWN_FILES:
        return "read_text"
    if isinstance(call.func, ast.Attribute) and call.func.attr == "decode" and _may_fail(call, call.func.value):
        return f"{name}({', '.join(map(ast.unparse, call.args))})"
    return ""


def _may_fail(call: ast.Call, receiver: ast.expr) -> bool:
    """Say whether this is `bytes.decode` without a word on what to do with other bytes; of our own ASCII it may be."""
    if any(word.arg == "errors" for word in call.keywords) or len(call.args) > 1:
        return False
    if call.args:
        return isinstance(call.args[0], ast.Constant) and call.args[0].value not in NEVER_FAIL
    return "encode" not in ast.unparse(receiver)


def test_only_one_module_decodes() -> None:
    """Every module of the sidecar."""
    assert [found for module in modules("sidecar") for found in violations(module)] == []


def test_the_rule_finds_what_it_is_for(tmp_path: Path) -> None:
    """Each kind of bare decoding, and each that is none."""
    lines = (
        "msgspec.json.decode(line, type=Line)",
        "DECODER = msgspec.json.Decoder(Line)",
        "json.loads(text)",
        "tomllib.loads(text)",
        "base64.b64decode(text)",
        "raw.decode()",
        'raw.decode("utf-8")',
        "path.read_text()",
    )
    caught = "try:\n    pass\nexcept (OSError, msgspec.DecodeError):\n    pass\n"
    fine = 'raw.decode("utf-8", "replace")\nraw.decode(errors="replace")\nx.encode(1).decode()\nraw.decode("latin-1")\n'
    root = planted(
        tmp_path,
        {
            "sidecar/bad.py": "\n".join(lines) + "\n" + caught,
            "sidecar/good.py": fine + "DECODER.decode(text)\n",
            "sidecar/core/decoding.py": "json.loads(text)\n",
        },
    )

    found = [each for module in modules("sidecar", root=root) for each in violations(module)]

    assert [each.split(" ")[0] for each in found] == [f"sidecar/bad.py:{line}" for line in (*range(1, 9), 11)]
    assert root != REPOSITORY
