"""The journal: the facts of a turn, the rules that say which fact may follow, and what is derived from them."""
