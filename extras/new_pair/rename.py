"""The shortest RENAME that maps a model's modules, and how it is written.  NumPy only."""

from collections.abc import Mapping
from functools import cache


def shortest(names: Mapping[str, str]) -> dict[str, str]:
    """Prefixes for case.py's RENAME, as few as there can be, that map each name as `names` does.

    names   Paddle's dotted names of modules or parameters -> torch's
    """
    tree: dict[str, list[str]] = {"": []}
    for name in sorted(names):
        parts = name.split(".")
        for i in range(len(parts)):
            above, here = ".".join(parts[:i]), ".".join(parts[: i + 1])
            if here not in tree:
                tree[here] = []
                tree[above].append(here)
    below: dict[str, dict[str, None]] = {}  # what a prefix may be called, so that names below fit
    for name, other in names.items():
        mine, its = name.split("."), other.split(".")
        while True:
            below.setdefault(".".join(mine), {})[".".join(its)] = None
            if not mine or not its or mine[-1] != its[-1]:
                break
            mine.pop(), its.pop()
            if not mine or not its:
                break

    @cache
    def cost(node: str, called: str) -> tuple[int, dict[str, str]]:
        """The fewest entries for what is in a node, the node itself being called so."""
        if node in names and names[node] != called:
            return 10**9, {}
        total, entries = 0, {}
        for child in tree[node]:
            local = child[len(node) :].lstrip(".")
            inherited = f"{called}.{local}" if called else local
            count, chosen = cost(child, inherited)
            for other in below.get(child, {}):
                if other != inherited:
                    more, below_it = cost(child, other)
                    if more + 1 < count:
                        count, chosen = more + 1, {child: other, **below_it}
            total, entries = total + count, entries | chosen
        return total, entries

    return cost("", "")[1]
