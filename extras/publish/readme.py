"""README.md and README_cn.md of an exported repository."""

import re
from pathlib import Path

from twincheck.extras.publish import Kind
from twincheck.extras.publish.source import PROGRAMS

_PAGES = {"README.md": "readme_en.txt", "README_cn.md": "readme_cn.txt"}
# A part of a page between `[name]` and `[/name]` is there only where the repository has it.
_PART = re.compile(r"^\[(\w+)\]\n(.*?)^\[/\1\]\n", re.MULTILINE | re.DOTALL)
_WORD = re.compile(r"\{(\w+)\}")


def pages(published, settings, programs, licence: str) -> dict[str, str]:
    """File name -> text; parts that are not in the repository are left out."""
    samples, free = settings.samples, settings.free_batch
    has = {
        "data": samples is not None,
        "train": "train.py" in programs,
        "only_eval": samples is not None and "train.py" not in programs,
        "no_train": "train.py" not in programs,
        "program": not settings.no_program,
        "no_program": bool(settings.no_program),
        "licence": bool(licence),
        "no_licence": not licence,
        "of_programs": licence != "LICENSE" or not published.pair.built_in,
        "seeded": published.draws,
    }
    words = {
        "title": published.pair.name,
        "package": settings.package,
        "preset": published.preset,
        "case": published.case.name or "main",
        "origin": published.origin,
        "origin_cn": published.origin_cn,
        "seed": str(published.seed),
        "outputs": ", ".join(
            f"`{name}` {list(values.shape)}" for name, values in published.outputs.items()
        ),
        "inputs": ", ".join(
            f"`{name}` {list(values.shape)} {values.dtype}"
            for name, values in published.inputs.items()
        ),
        "paddle": settings.versions["paddlepaddle"],
        "numpy": settings.versions["numpy"],
        "python": settings.versions["python"],
        "variables": settings.versions["variables"],
        "samples": samples.note if samples else "",
        "samples_cn": _note_cn(samples),
        "counts": _counts(samples),
        "epochs": str(samples.settings["epochs"]) if samples else "",
        "batch": Kind.BATCH_FREE() if free else Kind.BATCH_FIXED(),
        "batch_cn": "样本数不限" if free else "样本数固定为导出时的数量",
        "why": settings.no_program,
        "programs": ", ".join(f"`{program}`" for program in programs),
        "licence": licence,
    }
    return {name: _filled((PROGRAMS / file), has, words) for name, file in _PAGES.items()}


def _filled(path: Path, has: dict[str, bool], words: dict[str, str]) -> str:
    text = path.read_text(encoding="utf-8")
    text = _PART.sub(lambda part: part[2] if has[part[1]] else "", text)
    return _WORD.sub(lambda word: words[word[1]], text)


def _note_cn(samples) -> str:
    """How much of the data it is, in Chinese."""
    if samples is None or not samples.cut:
        return "全部样本"
    words = {"train": "训练集", "test": "测试集"}
    return "，".join(
        f"{words[p]} {of:,} 条中的前 {kept:,} 条" for p, (kept, of) in samples.cut.items()
    )


def _counts(samples) -> str:
    if samples is None:
        return ""
    return " + ".join(
        f"{len(next(iter(part.values()))):,}" for part in (samples.train, samples.test)
    )
