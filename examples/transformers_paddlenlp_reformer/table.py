"""Print what runs of the checks found as the table of this folder's README.

python table.py runs/*.json    each written by check_stepN.py --json
"""

import argparse
import json
from collections import Counter
from pathlib import Path

LEFT_OUT = "model.reformer.encoder."  # of keys, for a narrow table
HEADING = "| run | case | rows | right | flipped | diverged | carried | where it starts |"


def lines(path: Path) -> list[str]:
    """One line of the table for each case in a report."""
    rows = json.loads(path.read_text())["rows"]
    cases = {row["key"].split("/")[0]: [] for row in rows}
    for row in rows:
        cases[row["key"].split("/")[0]].append(row)
    return [line(path.stem, case, of_case) for case, of_case in cases.items()]


def line(run: str, case: str, rows: list[dict]) -> str:
    """One line: how many rows of each verdict, and the origins."""
    counts = Counter(row["verdict"] for row in rows)
    right = counts.pop("IDENTICAL", 0) + counts.pop("ROUNDING", 0)
    others = [counts.pop(verdict, 0) for verdict in ("FLIP", "DIVERGED", "CARRIED")]
    assert not counts, f"{run}: {dict(counts)} has no column"
    origins = [row["key"].removeprefix(f"{case}/") for row in rows if row["origin"]]
    told = "<br>".join(f"`{key.replace(LEFT_OUT, '')}`" for key in origins) or "–"
    cells = [run, case, len(rows), right, *others, told]
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Print the table of these reports."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE.json", help="a report")
    print(HEADING)
    print("|" + "---|" * HEADING.count(" | ") + "---|")
    for path in parser.parse_args().paths:
        print("\n".join(lines(path)))


if __name__ == "__main__":
    main()
