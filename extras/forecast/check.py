"""Step 5, predict: what both sides forecast behind a file's end, from one checkpoint.

    twincheck check-predict --model informer --weights CHECKPOINT --data ETTh1.csv

The configuration is the checkpoint's, or that of --preset.  As in the reference's do_predict the
scaler is fitted on all rows, and the forecast is given in the file's own units.  Beside the logs
lie forecast.csv, with both sides' forecast of every column, and forecast.png: the last column,
and beside it the last forecast whose truth the file holds.  Exit status 0: the same forecast.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from twincheck.common.check.command_line import check
from twincheck.common.check.options import OF_EVERY_CHECK, CheckOptions, Parser
from twincheck.common.check.result import Result
from twincheck.common.check.steps import Launch, Step
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair import sources
from twincheck.common.pair.case_hooks import ENTRIES_FILE, SAMPLES, data_preset
from twincheck.common.pair.data import save_arrays
from twincheck.common.pair.pairs import Pair, is_checkpoint, load_pairs
from twincheck.common.pair.sources import ett
from twincheck.common.report import terminal as report
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import of_pairs
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import write_json
from twincheck.common.system.program import guarded
from twincheck.common.weights.checkpoint import configured
from twincheck.extras.forecast import Kind
from twincheck.extras.forecast.forecast import PART, draw, samples, write_table

STEP = Step(
    number=5,
    title="train",
    script="predict",
    scripts="extras.forecast",
    launches=(),
    judged=("predict",),
    guide_stem="predict",
    other="predict",
)


def options_parser() -> Parser:
    """What this check takes."""
    return Parser(__doc__, STEP.command).take(*OF_EVERY_CHECK, "transplant", "data")


@of_pairs("--out")
def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    given = options_parser().parse_args(arguments)
    given.model = given.model or ["informer"]
    # With --compare-only the table and the picture are made again.
    options = replace(CheckOptions.of(given), judging=("data",))
    return guarded(given.debug, lambda: forecast(options))


def forecast(options: CheckOptions) -> int:
    """Run both sides, judge, and leave their forecasts as a table and a picture."""
    with tempfile.TemporaryDirectory(prefix="predict-") as name:
        series = {}
        for pair in load_pairs(options.models):
            if is_checkpoint(options.run.weights):
                pair, _ = configured(pair, options.run.weights, options.run.preset, train=False)
            series[pair.name] = Series(pair, options.run.preset, options.data)
            if not options.compare_only:
                series[pair.name].save(Path(name) / pair.name)

        def draw_forecasts(results: Sequence[Result]) -> None:
            for result in results:
                if not result.error:
                    report.say(series[result.model].show(result.folder, result.model))

        step = replace(STEP, launches=(Launch({"data": name}, teacher_forced=False),))
        return check(step, options, beside=draw_forecasts)


class Series:
    """One model's series: the samples that are forecast, and the file's own values and times."""

    def __init__(self, pair: Pair, preset: str, data: Path | None):
        """Raises UserError for a preset that reads no series, and for a file that is none."""
        preset = data_preset(pair, preset)
        settings = sources.source_settings(pair, preset)
        if not settings or settings["source"] != "ett":
            raise UserError(Kind.PRESET_OF_NO_SERIES(preset=preset, model=pair.name))
        path = data or sources.default_file(settings)
        if path is None or not path.is_file():
            raise UserError(Kind.FILE_MISSING(path=str(path or "")))
        self.config = ett.told(pair.config(preset))
        dates, names, values = ett.read_series(path)
        values, names = ett.chosen_columns(path, values, names, self.config, settings["split"])
        self.arrays, self.times = samples(path, self.config, dates, values)
        self.names = names[-len(self.arrays["constants/target_mean"]) :]
        self.values, self.path = values[:, -len(self.names) :], path

    def save(self, folder: Path) -> None:
        """Write the samples where the workers look for their data."""
        save_arrays(folder / f"{SAMPLES}.npz", self.arrays)
        columns = self.arrays["series/values"].shape[1]
        entries = {"enc_in": columns, "dec_in": columns, "c_out": len(self.names)}
        write_json(folder / ENTRIES_FILE, entries)

    def show(self, folder: Path, model: str) -> str:
        """Write forecast.csv and forecast.png into the folder of the logs; a sentence on both."""
        forecasts = {}
        for side in SIDES:
            with read_log(ResultFolder(folder).log("predict", side)) as log:
                forecasts[side] = np.asarray(log["predictions"], dtype=np.float64)
        table = {
            f"{name}/{side}": values[-1, :, i]
            for i, name in enumerate(self.names)
            for side, values in forecasts.items()
        }
        write_table(folder / "forecast.csv", self.times, table)
        ahead, rows = len(self.times), len(self.values)
        panels = []
        firsts = self.arrays[f"{PART}/starts"] + self.config["seq_len"]
        for number, first in enumerate(firsts.tolist()):
            title = Kind.PICTURE_BEHIND() if first == rows else Kind.PICTURE_HELD()
            panels.append((title, first, {s: v[number, :, -1] for s, v in forecasts.items()}))
        about = {"model": model, "file": self.path.name, "rows": ahead}
        title = Kind.PICTURE(column=self.names[-1], **about)
        draw(folder / "forecast.png", title, self.values[:, -1], panels)
        apart = float(np.abs(forecasts["torch"] - forecasts["paddle"]).max())
        about |= {"first": str(self.times[0]), "last": str(self.times[-1]), "apart": apart}
        files = {"table": f"{folder / 'forecast.csv'}", "picture": f"{folder / 'forecast.png'}"}
        return Kind.FORECASTS(**about, **files)
