"""Loads one version of a configuration: finds, reads and parses the files, then calls the core."""

from pathlib import Path

from sidecar.adapters.definitions_directory.files import Tree, read_tree
from sidecar.adapters.definitions_directory.yaml_documents import Parsed, parse
from sidecar.core.definitions.cards.card import SUB_AGENTS_AT_MOST
from sidecar.core.definitions.files.problems import Problem
from sidecar.core.definitions.prompt_size import TokenCounter, estimated_tokens
from sidecar.core.definitions.resolve import CommitsOf, LoadedCatalogue, load_documents, no_commit


def load_directory(
    root: Path,
    count: TokenCounter = estimated_tokens,
    commits_of: CommitsOf = no_commit,
    max_sub_agents: int = SUB_AGENTS_AT_MOST,
) -> LoadedCatalogue:
    """Load the configuration below `root`. Blocks; problems of the files are returned, never raised.

    Args:
        root: the folder that holds `agent_config.yaml`.
        count: returns the number of tokens of a text; an estimate by default.
        commits_of: returns the commits in which digests first appeared, e.g. `GitHistory(root).commits_of`.
        max_sub_agents: the most sub-agents of one orchestrator.
    """
    return load_tree(read_tree(root), count, commits_of, max_sub_agents)


def load_tree(
    tree: Tree,
    count: TokenCounter = estimated_tokens,
    commits_of: CommitsOf = no_commit,
    max_sub_agents: int = SUB_AGENTS_AT_MOST,
) -> LoadedCatalogue:
    """Load a version whose files were read already."""
    parsed = {path: parse(content, path) for path, content in tree.files.items()}
    return load_parsed(parsed, tree.unread, tree.problems, count, commits_of, max_sub_agents)


def load_parsed(
    parsed: dict[str, Parsed],
    unread: list[str],
    problems: list[Problem],
    count: TokenCounter = estimated_tokens,
    commits_of: CommitsOf = no_commit,
    max_sub_agents: int = SUB_AGENTS_AT_MOST,
) -> LoadedCatalogue:
    """Load files that were parsed already.

    Args:
        parsed: by path.
        unread: paths that exist but could not be read.
        problems: why they could not be read.
        count: returns the number of tokens of a text.
        commits_of: returns the commits in which digests first appeared.
        max_sub_agents: the most sub-agents of one orchestrator.
    """
    documents = [one.document for one in parsed.values() if one.document is not None]
    missing = [path for path, one in parsed.items() if one.document is None]
    earlier = [*problems, *(problem for one in parsed.values() for problem in one.problems)]
    return load_documents(documents, [*unread, *missing], earlier, count, commits_of, max_sub_agents)
