"""The YAML loader of files beside the configuration: the manifest of gates, cases and thresholds of evaluations.

The configuration itself is read by the sidecar, which refuses ambiguous words as well.
"""

from typing import Any, Final

import yaml

MOST_DEPTH: Final = 16


class StrictLoader(yaml.SafeLoader):
    """Refuses aliases, nesting deeper than `MOST_DEPTH`, and repeated keys. Raises `yaml.MarkedYAMLError`."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose one node, unless it is an alias, has an anchor, or is too deep."""
        event = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML's stubs leave the parser out
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise yaml.composer.ComposerError(None, None, "aliases and anchors are not allowed", event.start_mark)
        if self.depth >= MOST_DEPTH:
            raise yaml.composer.ComposerError(None, None, "nested too deep", event.start_mark)
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping whose keys all differ."""
        seen: dict[str, None] = {}
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                problem = f"the key {name[:40]!r} is repeated"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen[name] = None
        return super().construct_mapping(node, deep)
