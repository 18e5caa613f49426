"""Files of the user's that a pair takes a model from: linked into its folder, never copied.

So the pair runs what the user goes on editing, and says of it where it is.  Each side has a folder
of links of its own, for both may have a net.py: its imports look into that first, and it is where
relative paths lead from (common/pair/pairs.py).
"""

import os
from collections.abc import Mapping
from pathlib import Path

from twincheck.common.system.errors import UserError
from twincheck.extras.new_pair import Kind


def make_links(links: Mapping[str, str], folder: Path, final: Path) -> None:
    """Link a side's files into `folder`, which will be called `final`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in links.items():
        (folder / name).symlink_to(os.path.relpath(path, os.path.realpath(final)))


def replace_links(work: Path, folder: Path) -> None:
    """Give a pair's folder the links of one that was made anew; other files stay."""
    for link in work.glob("of_*/*"):
        place = folder / link.relative_to(work)
        if place.is_symlink():
            place.unlink()
        elif place.exists():
            raise UserError(Kind.PLACE_NO_LINK(place=str(place)))
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(os.readlink(link))
