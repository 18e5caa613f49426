"""The results of `make faults`, on the terminal and as a page's table."""

TOOLS = {"reprod_log": "reprod_log, mean 1e-6", "padiff": "PaDiff, default"}


def peer(fault: dict, tool: str) -> str:
    """Return a tool's outcome: caught, missed, blind (it fails correct logs too) or no logs."""
    if fault["peers"][tool] == "no logs":
        return "no logs"
    if fault["peers"][tool] == "passes":
        return "missed"
    return "caught" if fault["control_peers"][tool] == "passes" else "blind"


def rates(found: dict) -> dict[str, int]:
    """The numbers of the last line."""
    faults, controls = found["faults"], found["controls"]
    numbers = {
        "faults": len(faults),
        "caught": sum(fault["caught"] for fault in faults),
        "origin": sum(fault["origin_right"] for fault in faults),
        "controls": len(controls),
        "control_alarms": sum(control["exit_code"] != 0 for control in controls),
        "hard": len(found["hard"]),
        "hard_alarms": sum(pair["exit_code"] != 0 for pair in found["hard"]),
        "guide_fails": sum(pair["guide_passed"] is False for pair in found["hard"]),
    }
    lines = [fault for fault in faults if fault.get("planted")]
    known = [fault for fault in lines if fault["marked"] is not None]
    apart = [min(abs(line - fault["marked"]) for line in fault["planted"]) for fault in known]
    numbers |= {"lines": len(lines), "marked": apart.count(0), "beside": apart.count(1)}
    for tool in TOOLS:
        said = [peer(fault, tool) for fault in faults]
        numbers[f"{tool}_seen"] = sum(word != "no logs" for word in said)
        numbers[f"{tool}_fails"] = sum(word in ("caught", "blind") for word in said)
        numbers[f"{tool}_caught"] = said.count("caught")
        numbers[f"{tool}_alarms"] = sum(c["peers"][tool] == "fails" for c in controls)
    return numbers


def sentences(found: dict) -> list[str]:
    """The result in words: what `make faults` ends with and the README repeats."""
    n = rates(found)
    told = [
        f"{n['caught']} of {n['faults']} faults caught, {n['origin']} with the right origin; "
        f"{n['control_alarms']} false alarms in {n['controls']} correct runs of the same checks"
    ]
    if n["hard"]:
        told.append(
            f"{n['hard_alarms']} false alarms in {n['hard']} correct hard pairs, of which the "
            f"guide's rule fails {n['guide_fails']}"
        )
    if n["lines"]:
        told.append(
            f"of {n['lines']} in a model's code the marked line is the planted one in "
            f"{n['marked']}, the one beside it in {n['beside']}"
        )
    for tool, name in TOOLS.items():
        told.append(
            f"{name}: fails {n[f'{tool}_fails']} of the {n[f'{tool}_seen']} faults that leave "
            f"logs, and {n[f'{tool}_alarms']} of the {n['controls']} correct runs; "
            f"tells {n[f'{tool}_caught']} faults from the correct run"
        )
    return told


def on_terminal(found: dict) -> None:
    """A line for each fault, what went wrong, and the sentences."""
    for fault in found["faults"]:
        verdict = "caught" if fault["caught"] else "MISSED"
        said = fault["first"] or fault["sentence"][:120]
        print(f"step {fault['step']}  {verdict}  {fault['id']}: {fault['what']}: {said}")
    for fault in found["faults"]:
        if not fault["origin_right"]:
            print(
                f"{fault['id']}: wanted {fault['wanted']}; exit status {fault['exit_code']}, "
                f"first {fault['first']}, origins {fault['origins']} {fault['sentence']}"
            )
        for step, status in fault["earlier"].items():
            if status != 0:
                print(f"{fault['id']}: step {step} should have passed")
    for control in found["controls"]:
        if control["exit_code"] != 0:
            print(f"a correct run is red: {control}")
    for pair in found["hard"]:
        if pair["exit_code"] != 0:
            print(f"a correct hard pair is red: {pair}")
    print("\n".join(sentences(found)))
    print(f"{found['seconds']:.0f} s, {found['cpu_seconds']:.0f} s of CPU")


def as_markdown(found: dict) -> str:
    """The README's part: the sentences, then every fault in a table that opens on a click."""
    words = {"caught": "caught", "missed": "missed", "blind": "fails correct ports too"}
    lines = [f"* {sentence}" for sentence in sentences(found)]
    lines += ["", "<details><summary>Every fault</summary>", ""]
    lines += [
        "| step | model | fault | caught | origin named | reprod_log | PaDiff |",
        "|---|---|---|---|---|---|---|",
    ]
    for fault in found["faults"]:
        tools = (words.get(peer(fault, tool), "no logs") for tool in TOOLS)
        named = fault["wanted"] if fault["refused"] else fault["first"]
        lines.append(
            f"| {fault['step']} | {fault['model']} | {fault['what']} | "
            f"{'yes' if fault['caught'] else '**no**'} | "
            f"{'`' + named + '`' if fault['origin_right'] else '**wrong**'} | "
            + " | ".join(tools)
            + " |"
        )
    return "\n".join([*lines, "", "</details>"])
