"""Loads the definitions of a configuration folder: finds, reads and parses the files, then resolves them in the core.

The sidecar, `sidecar validate` and the search through git's history use it. Each of them calls
another function of this module, because its files come from a folder, from bytes that were compared before, or from a
commit.
"""

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
    """Load the configuration below `root`. Blocks. Problems of the files are returned, never raised.

    Args:
        root: the folder that contains `agent_config.yaml`.
        count: returns the number of tokens of a text; an estimate by default.
        commits_of: returns the commits in which digests first appeared, e.g. `GitHistory(root).commits_of`.
        max_sub_agents: the maximum number of sub-agents of one orchestrator.

    Returns:
        the definitions, if there is no error, and all problems.
    """
    return load_tree(read_tree(root), count, commits_of, max_sub_agents)


def load_tree(
    tree: Tree,
    count: TokenCounter = estimated_tokens,
    commits_of: CommitsOf = no_commit,
    max_sub_agents: int = SUB_AGENTS_AT_MOST,
) -> LoadedCatalogue:
    """Load a configuration whose files have been read. Arguments and result as in `load_directory`."""
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
    """Load a configuration whose files have been parsed. The result is that of `load_directory`.

    Args:
        parsed: the parsed files by path, relative to the configuration root.
        unread: paths of files that exist but could not be read.
        problems: why these files could not be read.
        count: as in `load_directory`.
        commits_of: as in `load_directory`.
        max_sub_agents: as in `load_directory`.
    """
    documents = [one.document for one in parsed.values() if one.document is not None]
    # The core must know the paths without a document: a reference to such a file is no reference to a missing file.
    without_document = [path for path, one in parsed.items() if one.document is None]
    earlier = [*problems, *(problem for one in parsed.values() for problem in one.problems)]
    return load_documents(documents, [*unread, *without_document], earlier, count, commits_of, max_sub_agents)
