"""From a pair to a repository in its place: run, write, try, rename."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from twincheck.common.pair.pairs import Pair
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.folders import put_in_place, working_folder
from twincheck.extras.publish import Kind
from twincheck.extras.publish.published import run_both
from twincheck.extras.publish.repository import (
    Settings,
    package_name,
    write_arrays,
    write_repository,
)
from twincheck.extras.publish.samples import samples_of
from twincheck.extras.publish.self_check import check_bits, last_line, run_alone
from twincheck.extras.publish.source import take

_MADE_BY_PROGRAMS = ("inference", "log", "output")


def refuse_place(out: Path, overwrite: bool, pair: Pair) -> None:
    """Raise UserError where nothing may be written to `out`."""
    target = out.resolve()
    for ours in (ROOT, pair.folder):
        if target == ours or target in ours.parents:
            raise UserError(Kind.OUT_AROUND(path=str(out), name=ours.name))
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise UserError(Kind.OUT_NO_FOLDER(path=str(out)))
    if not overwrite and out.is_dir() and any(out.iterdir()):
        raise UserError(Kind.OUT_NOT_EMPTY(path=str(out)))
    if overwrite and (out / ".git").exists():
        raise UserError(Kind.OUT_GIT(path=str(out)))


def publish(
    pair: Pair, options, pythons: Mapping[str, str], work: Path, on_progress: Callable[[str], None]
) -> list[str]:
    """Export and check; returns what to say.  Raises UserError, and writes nothing then."""
    out, python = options.out.absolute(), pythons["paddle"]
    package = package_name(pair.name)
    take(pair.folder, package, pair.built_in)  # what cannot stand alone is refused at once
    published = run_both(pair, options, pythons, work, on_progress)
    samples, why_none = samples_of(published.pair, published.case, options, on_progress)
    out.parent.mkdir(parents=True, exist_ok=True)
    with working_folder(out.parent) as folder:
        settings = Settings(package, published.versions, samples)
        repository = folder / "repository"
        write_repository(repository, published, settings)
        if published.own_draws:
            raise UserError(Kind.OWN_DRAWS(model=pair.name))
        on_progress(Kind.RUNNING_PREDICT())
        count = check_bits(python, repository, published.outputs, work)
        said = _saved_program(python, repository, settings, on_progress)
        if settings.no_program or not settings.free_batch:
            shutil.rmtree(repository)
            write_repository(repository, published, settings)
        write_arrays(repository / "example" / "outputs.npz", published.outputs)
        for name in _MADE_BY_PROGRAMS:
            shutil.rmtree(repository / name, ignore_errors=True)
        put_in_place(repository, out)
    data = Kind.DATA_NONE(reason=why_none) if samples is None else Kind.DATA(note=samples.note)
    lines = [Kind.SAME_BITS(count=count), said, Kind.WEIGHTS(origin=published.origin), data]
    return [*lines, Kind.WRITTEN(path=str(options.out))]


def _saved_program(python: str, folder: Path, settings: Settings, on_progress) -> str:
    """Save and run the program, for any number of samples where that works; what to say of it."""
    on_progress(Kind.SAVING_PROGRAM())
    for free in (True, False):
        settings.free_batch = free
        status, said = run_alone(python, folder, "export.py", [] if free else ["--fixed"])
        if status:
            settings.no_program = Kind.PROGRAM_NOT_SAVED(line=last_line(said))
            continue
        on_progress(Kind.RUNNING_PROGRAM())
        status, said = run_alone(python, folder, "infer.py", ["--split"] if free else [])
        if status == 0:
            settings.no_program = ""
            return Kind.PROGRAM_FREE() if free else Kind.PROGRAM_FIXED()
        wrong = [line for line in said.splitlines() if "MORE than" in line or "DIFFERS" in line]
        settings.no_program = Kind.PROGRAM_OTHER(line=(wrong or [last_line(said)])[0])
    return Kind.PROGRAM_NONE(reason=settings.no_program)
