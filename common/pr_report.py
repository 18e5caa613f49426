"""One Markdown file for a pull request: what a port's results show, in the form maintainers know.

The command of an extra, extras/pr_report: --help says what it takes.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import forward

    sys.exit(forward("pr_report"))  # extras/pr_report
