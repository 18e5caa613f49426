"""Write the generated parts of the READMEs and docs/ from a check's report.

    make check                                    leaves log/report.json
    python -m tools.readme                        all of these
    python -m tools.readme --faults FILE          also the catalogue's parts, from `make faults`

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`, in one page of each language.
The red block is a pair's of the gallery.
"""

import json
import re
import shutil
import sys
import time
from pathlib import Path

from faults import show
from tools import page_tables
from tools.page_tables import cells
from tools.twins import markdown_table
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.program import Parser
from twincheck.examples.gallery.__main__ import RESULTS
from twincheck.examples.gallery.run import Result, read_result

REPORT = ROOT / "log" / "report.json"
PICS = ROOT / "pics"
RED_EXAMPLE = "gpt_oss_paddleformers"  # of the gallery: what the READMEs show of a red check


def main(arguments: list[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = Parser(__doc__)
    parser.add_argument("--report", type=Path, default=REPORT)
    parser.add_argument("--faults", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    docs = sorted((ROOT / "docs").glob("*.md"))
    english = [ROOT / "README.md", *docs]
    try:
        rows = _rows(options.report)
        guide = json.loads(options.report.read_text()).get("guide", [])
        if options.faults and not options.faults.is_file():
            raise UserError(f"{options.faults}: there is no such file; run `make faults` first")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    PICS.mkdir(exist_ok=True)
    curves = ROOT / "step5_train" / "log" / "fastformer" / "train_curves.png"
    if curves.is_file():
        shutil.copy(curves, PICS / "train_curves.png")
    found = cells(rows, guide)
    day = time.strftime("%Y-%m-%d", time.localtime(options.report.stat().st_mtime))
    of_faults = json.loads(options.faults.read_text()) if options.faults else None
    of_red = {"red": red_block(read_result(RESULTS / f"{RED_EXAMPLE}.json"))}
    parts = {"accuracies": accuracies(rows), "spellings": markdown_table()}
    if of_faults:
        parts["faults"] = show.as_markdown(of_faults)
    _write(english, parts | of_red | tables(found, day, of_faults, "en"))
    _write([ROOT / "README_cn.md"], of_red | tables(found, day, of_faults, "cn"))
    return 0


def tables(found: dict, day: str, of_faults: dict | None, language: str) -> dict[str, str]:
    """The parts of a README: the same names and numbers in both languages."""
    parts = {
        "steps": page_tables.steps_table(found, language),
        "acceptance": page_tables.acceptance_table(found, language),
        "measured": page_tables.measured_table(found, day, language),
    }
    if of_faults:
        parts["detects"] = page_tables.detects(of_faults, language)
    return parts


def _write(pages: list[Path], parts: dict[str, str]) -> None:
    for page, text in fill_pages({page: page.read_text() for page in pages}, parts).items():
        page.write_text(text)


def red_block(result: Result) -> str:
    """Return what step 1 says of a pair of the gallery, as it is published."""
    check = next(c for c in result.as_published.checks if c.block)
    return "\n".join(["```", check.block, "```"])


def _rows(path: Path) -> list[dict]:
    if not path.is_file():
        raise UserError(f"{path}: there is no such report; run `make check` first")
    return json.loads(path.read_text())["rows"]


def fill(text: str, parts: dict[str, str]) -> str:
    """The text with each generated part replaced; a part without its one place is an error."""
    return fill_pages({"": text}, parts)[""]


def fill_pages(texts: dict, parts: dict[str, str]) -> dict:
    """Page -> its text, each part in the one page that has a place for it."""
    texts = dict(texts)
    for name, content in parts.items():
        pattern = rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)"
        places = 0
        for page, text in texts.items():
            texts[page], count = re.subn(
                pattern, lambda m, c=content: f"{m[1]}{c.strip()}\n{m[2]}", text, flags=re.S
            )
            places += count
        if places != 1:
            raise ValueError(f"there are {places} places for the generated part {name}, not 1")
    return texts


def accuracies(rows: list[dict]) -> str:
    """Say what step 5 says of the final predictions, a line a model."""
    final = [row for row in rows if row["key"] == "train/final_predictions"]
    return "\n".join(f"* `{row['model']}`: {row.get('note', '')}" for row in final)


if __name__ == "__main__":
    sys.exit(main())
