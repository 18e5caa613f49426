"""Pictures of the report's page: pics/report-*.png, of a `make check` and of a planted fault.

    python -m tools.screens [--page log/report.html]

The fault is a LayerNorm epsilon of 1e-5 for 1e-12 in one layer of a copy of Fastformer's Paddle
side.  Needs Debian's chromium, and playwright, which `make install` brings.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too, and under a Python that will not do
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import begin

    begin("numpy", "rich", "jinja2")

import argparse
import contextlib
import io
import shutil
import tempfile
from collections.abc import Sequence

from PIL import Image

from twincheck.common.check.guard import guarded
from twincheck.common.check.options import CheckOptions
from twincheck.common.check.runner import run_step
from twincheck.common.report import html_page
from twincheck.common.report import terminal as report
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.door import for_others
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import whole

PICS = ROOT / "pics"
FAULT = (
    'self.output = AddNorm(inner, width, config["hidden_dropout_prob"], config["layer_norm_eps"])'
)
COLOURS = 96  # of a picture: text and few tones
DESK, PHONE, PAPER = (1280, 860), (390, 844), (760, 1000)


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--page", type=Path, default=ROOT / "log" / "report.html", metavar="FILE")
    parser.add_argument("--debug", action="store_true")
    options = parser.parse_args(arguments)
    return guarded(options.debug, lambda: _main(options.page.absolute()))


def _main(page: Path) -> int:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        raise UserError("no chromium in PATH: apt install chromium")
    if not page.is_file():
        raise UserError(f"{page} is not there: run make check first, or name a page with --page")
    with tempfile.TemporaryDirectory() as folder:
        red = _red_page(Path(folder))
        for name in _draw(browser, page, red):
            print(PICS / name)
    return 0


def _red_page(folder: Path) -> Path:
    """Step 1 of a copy of Fastformer with the fault."""
    from twincheck.step1_forward.check_step1 import STEP

    pair = folder / "my_fastformer"
    shutil.copytree(ROOT / "common" / "models" / "fastformer", pair)
    model = pair / "paddle_model.py"
    text = model.read_text()
    if text.count(FAULT) != 1:
        raise UserError(f"{model}: the line of the fault is there {text.count(FAULT)} times")
    model.write_text(text.replace(FAULT, FAULT.replace('config["layer_norm_eps"]', "1e-5")))
    options = CheckOptions(models=(str(pair),), out=folder, no_report=True)
    with report.progress() as on_progress:
        results = run_step(STEP, options, on_progress)
    command = for_others(STEP.command, "my_fastformer")
    html_page.write_page(folder / html_page.FILE, results, command, "step 1, forward")
    return folder / html_page.FILE


def _draw(browser: str, green: Path, red: Path) -> list[str]:
    """Open the pages and take the pictures; returns their names."""
    from playwright.sync_api import sync_playwright

    made = []
    with sync_playwright() as playwright, contextlib.ExitStack() as stack:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        stack.callback(chromium.close)

        def take(name: str, path: Path, size, do=None, fragment="", **options) -> None:
            width, height = size
            view = chromium.new_page(viewport={"width": width, "height": height}, **options)
            view.goto(path.as_uri() + fragment)
            view.locator("#tensors").wait_for()  # what is packed is there
            if do is not None:
                do(view)
            view.wait_for_timeout(300)
            _save(PICS / name, view.screenshot())
            view.close()
            made.append(name)

        def top(view) -> None:
            view.evaluate("scrollTo(0, 0)")

        def origin(view) -> None:
            view.evaluate("document.getElementById('model').scrollIntoView()")

        def filtered(view) -> None:
            view.evaluate("document.getElementById('all-rows').open = true")
            view.select_option("#f-result", label=_option(view, "backward"))
            view.fill("#f-text", "weight adam 003")
            view.wait_for_timeout(300)
            view.get_by_role("button", name="Share of what is allowed").click()
            view.locator("#rows button").first.click()
            view.evaluate("document.getElementById('tensors').scrollIntoView()")

        def curves(view) -> None:
            block = view.locator("details.result[data-name^='step5/']").last
            block.evaluate("one => { one.open = true; }")
            block.locator(".charts").first.evaluate("one => scrollTo(0, one.offsetTop - 60)")

        def paper(view) -> None:
            view.emulate_media(media="print")

        def cards(view) -> None:
            view.evaluate("document.getElementById('tree').scrollIntoView()")

        take("report-overview.png", green, DESK, top)
        take("report-red.png", red, DESK, origin)
        take("report-list.png", green, DESK, filtered)
        take("report-dark.png", green, DESK, curves, color_scheme="dark")
        take("report-phone.png", red, PHONE, cards)
        take("report-print.png", red, PAPER, paper)
    return made


def _option(view, word: str) -> str:
    """The first result whose title has a word."""
    labels = view.locator("#f-result option").all_text_contents()
    found = next((label for label in labels if word in label), None)
    if found is None:
        raise UserError(f"the page has no result of {word}: it is that of make check")
    return found


def _save(path: Path, content: bytes) -> None:
    picture = Image.open(io.BytesIO(content)).convert("RGB").quantize(COLOURS)
    with whole(path) as temporary:
        picture.save(temporary, format="PNG", optimize=True)


if __name__ == "__main__":
    sys.exit(main())
