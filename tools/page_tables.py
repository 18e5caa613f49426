"""The generated tables of README.md and README_cn.md: one set of numbers, in two languages.

Each function takes a language, "en" or "cn", and returns Markdown.  Keys, verdicts, commands and
numbers are the same in both; words stand side by side here, so that neither page can lag behind.
"""

import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from faults.show import rates, sentences
from twincheck.common.report.acceptance import NODES
from twincheck.common.verdict.row import worst

Words = tuple[str, str]  # English, Chinese

# What each step asks, in the order of the steps.
STEPS: tuple[tuple[str, Words, Words], ...] = (
    (
        "step1_forward",
        ("forward", "前向对齐"),
        ("the same function, tensor by tensor?", "逐个张量比对，是否为同一个函数？"),
    ),
    (
        "step2_metric",
        ("metric", "评估指标对齐"),
        ("the same batches, predictions and scores?", "批次、预测结果、指标是否一致？"),
    ),
    (
        "step3_loss",
        ("loss", "损失对齐"),
        ("the same loss, however reduced?", "各种归约方式下损失是否一致？"),
    ),
    (
        "step4_backward",
        ("backward", "反向对齐"),
        (
            "the same gradients, and ten steps of four optimizers?",
            "梯度是否一致？四种优化器各更新十步后是否仍一致？",
        ),
    ),
    (
        "step5_train",
        ("train", "训练对齐"),
        (
            "do both sides train alike, and generate the same text?",
            "两侧训练过程是否一致？生成的文本是否相同？",
        ),
    ),
)


@dataclass
class Cell:
    """The findings of `make check` for a step of a model."""

    verdict: str
    rows: list[dict]
    guide: bool | None  # reprod_log's own words on the guide's pair; None: it was not asked


def cells(rows: Sequence[dict], guide: Sequence[dict] = ()) -> dict[tuple[int, str], Cell]:
    """(step, model) -> what was found.

    guide  what reprod_log says of the guide's own keys, of each step and model
    """
    said = {(one["step"], one["model"]): one["reprod_log"] for one in guide}
    found: dict[tuple[int, str], list[dict]] = {}
    for row in rows:
        found.setdefault((row["step"], row["model"]), []).append(row)
    return {
        of: Cell(worst(row["verdict"] for row in own), own, said.get(of))
        for of, own in found.items()
    }


def share(row: dict) -> float:
    """Return how much of what a row is allowed it takes; 0 where that says nothing."""
    gap, allowed = row.get("gap"), row.get("allowed")
    return gap / allowed if gap and allowed else 0.0


def steps_table(found: dict[tuple[int, str], Cell], language: str) -> str:
    """The first screen's five rows: step, question, and for each model verdict and tensors."""
    tell = _in(language)
    models = _models(found)
    lines = _head(tell(("step", "步骤")), tell(("question", "核对内容")), *_code(models))
    for number, step in enumerate(STEPS, start=1):
        told = [found.get((number, model)) for model in models]
        values = [f"{cell.verdict}, {len(cell.rows):,}" if cell else "–" for cell in told]
        lines.append(_row(_link(step, number, language), tell(step[2]), *values))
    return "\n".join(lines)


def measured_table(found: dict[tuple[int, str], Cell], day: str, language: str) -> str:
    """Measured / allowed of the tensor that took most, and how many fail the guide's rule."""
    tell = _in(language)
    models = _models(found)
    lines = _head(tell(("step", "步骤")), *_code(models))
    for number, step in enumerate(STEPS, start=1):
        told = [found.get((number, model)) for model in models]
        values = [_measured(cell, number, tell) if cell else "–" for cell in told]
        lines.append(_row(_link(step, number, language), *values))
    packages = ("torch", "paddlepaddle", "reprod_log", "numpy")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    device = f"Python {platform.python_version()}, CPU ({platform.machine()}), {day}"
    lines += ["", f"{versions}, {device}{tell(('.', '。'))}"]
    return "\n".join(lines)


def _measured(cell: Cell, number: int, tell) -> str:
    row = max(cell.rows, key=share)
    text = f"{row['gap']:.0e} / {row['allowed']:.0e}" if share(row) else "0"
    guides = [r["guide_passed"] for r in cell.rows if r.get("guide_passed") is not None]
    if number == len(STEPS) or not guides:  # the guide compares scores there, not tensors
        return text
    failed = sum(not passed for passed in guides)
    counts = f"{failed:,}/{len(guides):,}"
    return text + tell((f"; guide fails {counts}", f"；指南不通过 {counts}"))


def acceptance_table(found: dict[tuple[int, str], Cell], language: str) -> str:
    """The guide's sections: command, file, criterion and result."""
    tell = _in(language)
    lines = _head(
        tell(("guide §", "指南章节")),
        tell(("command", "命令")),
        tell(("file", "文件")),
        tell(("criterion", "验收标准")),
        tell(("result", "结果")),
    )
    for node in NODES:
        section = f"{node.numbers} {tell(node.what)}"
        lines.append(
            _row(
                f"**{section}**" if node.node else section,
                f"`{node.command}`",
                f"`{node.files}`",
                tell(node.criterion).replace("|", r"\|"),
                _result(node, found, tell),
            )
        )
    return "\n".join(lines)


def _result(node, found: dict[tuple[int, str], Cell], tell) -> str:
    if node.step is None:
        return tell(("run by the tests", "由测试运行"))
    own = [cell for (step, _), cell in found.items() if step == node.step]
    rows = [r for cell in own for r in cell.rows if re.search(node.keys, r["key"])]
    if not rows:
        return "–"
    verdict = worst(row["verdict"] for row in rows)
    if node.keys:
        return verdict
    said = [cell.guide for cell in own if cell.guide is not None]
    if not said:
        return verdict
    counts = f"{sum(said)}/{len(said)}"
    return tell((f"{counts} passed; {verdict}", f"{counts} 通过；{verdict}"))


def detects(found: dict, language: str) -> str:
    """Say what `make faults` found, in two sentences."""
    told, n = sentences(found)[:2], rates(found)
    if language == "cn":
        told = [
            f"植入错误 {n['faults']} 处，检出 {n['caught']} 处，其中 {n['origin']} 处定位准确；"
            f"同样的检查在正确代码上运行 {n['controls']} 次，误报 {n['control_alarms']} 次",
            f"正确但数值条件苛刻的模型 {n['hard']} 组，误报 {n['hard_alarms']} 次；"
            f"只按指南的规则判断，其中 {n['guide_fails']} 组不通过",
        ]
    return "\n".join(f"* {each}" for each in told)


def _in(language: str):
    place = ("en", "cn").index(language)
    return lambda words: words[place]


def _models(found: dict[tuple[int, str], Cell]) -> list[str]:
    return list(dict.fromkeys(model for _, model in found))


def _link(step: tuple[str, Words, Words], number: int, language: str) -> str:
    page = "README.md" if language == "en" else "README_cn.md"
    return f"[{number} {_in(language)(step[1])}]({step[0]}/{page})"


def _code(names: Sequence[str]) -> list[str]:
    return [f"`{name}`" for name in names]


def _head(*titles: str) -> list[str]:
    return [_row(*titles), "|" + "---|" * len(titles)]


def _row(*values: str) -> str:
    return "| " + " | ".join(values) + " |"
