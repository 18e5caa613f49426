"use strict";
// The model as a tree (common/report/html_tree.py): both sides' modules line by line, what is alike
// folded, what is red open; a module's rows, sources and values beside it.  The keys are those of
// ARIA's tree pattern.
function modelTree({ data, all, $, Kind, element, titleOf, verdictWord, mark, counted, drawDetail, drawSource, listOf }) {
  const SIDES = ["torch", "paddle"], FEWEST_FOLDED = 3, MOST_ROWS = 80, MOST_OPENED = 5;
  const AGREEING = new Set(data.agreeing), FAILING = new Set(data.failing);
  const trees = new Map();
  const state = { r: -1, tree: null, open: new Set(), flow: false, at: null, chosen: null };
  let items = [];

  // ---- modules ------------------------------------------------------------------------------
  function treeOf(r) {
    if (trees.has(r)) return trees.get(r);
    const of = data.results[r].tree;
    const numbers = new Map(of.names.map((name, i) => [name, i]));
    const told = SIDES.every((s) => of.parameters[s].some((count) => count !== null));
    const modules = of.names.map((name, i) => {
      let around = name;
      do around = around.slice(0, Math.max(0, around.lastIndexOf("."))); while (!numbers.has(around));
      const [torch, paddle] = SIDES.map((s) => of.parameters[s][i] !== null);
      return { id: "m" + i, i, of, name, parent: name ? numbers.get(around) : -1, below: [], rows: [], counts: {}, total: 0,
        worst: 0, share: NaN, origin: false, only: told && torch !== paddle ? (torch ? "torch" : "paddle") : "",
        label: around ? name.slice(around.length + 1) : name };
    });
    all[r].forEach((row, n) => modules[of.of[n]].rows.push(row));
    const depth = (one) => (one.name ? one.name.split(".").length : 0);
    const inward = modules.map((one) => [depth(one), one]).sort((a, b) => b[0] - a[0] || b[1].i - a[1].i);
    for (const [, one] of inward) {
      for (const row of one.rows) {
        add(one, { counts: { [row.verdict]: 1 }, total: 1, worst: row.severity, share: row.number("share"), origin: starts(row) });
      }
      one.alone ||= one.only !== "";
      const up = modules[one.parent];
      if (!up) continue;
      up.below.push(one);
      add(up, one);
    }
    for (const one of modules) one.below.sort((a, b) => a.i - b.i);
    trees.set(r, modules);
    return modules;
  }
  // What is said of a whole is said of its parts: the largest error is that of its worst verdict.
  function add(whole, part) {
    const kind = (worst) => (AGREEING.has(data.severity[worst]) ? 0 : worst);
    if (kind(part.worst) > kind(whole.worst)) whole.share = part.share;
    else if (kind(part.worst) === kind(whole.worst) && !(whole.share >= part.share)) whole.share = part.share >= 0 ? part.share : whole.share;
    whole.total += part.total;
    whole.worst = Math.max(whole.worst, part.worst);
    whole.origin ||= part.origin;
    whole.alone ||= part.alone;
    for (const [verdict, count] of Object.entries(part.counts)) whole.counts[verdict] = (whole.counts[verdict] ?? 0) + count;
    return whole;
  }
  const starts = (row) => row.origin && FAILING.has(row.verdict);
  const verdictOf = (one) => data.severity[one.worst];
  const kindOf = (one) => (one.alone || one.origin ? null : AGREEING.has(verdictOf(one)) ? "agree" : verdictOf(one));

  // What stands below a module: modules, runs of alike ones as one, and values as they flow.
  function below(one) {
    const found = [];
    const sorted = !state.flow ? one.below
      : [...one.below].sort((a, b) => (a.of.at[a.i] ?? Infinity) - (b.of.at[b.i] ?? Infinity));
    for (let first = 0, last; first < sorted.length; first = last) {
      const stem = (m) => m.label.replace(/\d+$/, "");
      const kind = kindOf(sorted[first]);
      for (last = first + 1; last < sorted.length && kind && /\d$/.test(sorted[first].label)
        && stem(sorted[last]) === stem(sorted[first]) && kindOf(sorted[last]) === kind;) last += 1;
      const run = sorted.slice(first, last);
      found.push(...(run.length >= FEWEST_FOLDED ? [{ id: `f${run[0].i}`, run, at: run[0].of.at[run[0].i] }] : run));
    }
    if (!state.flow) return found;
    const at = (item) => item.row?.order ?? item.at ?? item.of?.at[item.i] ?? Infinity;
    const values = one.rows.filter((row) => one.of.cases[row.i] === state.tree.case);
    found.push(...values.map((row) => ({ id: `r${row.i}`, row })));
    return found.sort((a, b) => at(a) - at(b) || Boolean(a.row) - Boolean(b.row));
  }
  // What an input is: the earlier value that has its bits, or the two whose sum has them.
  function fed(row) {
    const sources = data.results[state.r].flow[row.i];
    return sources ? [element("span", { class: "quiet" }, "← ", element("bdi", {}, sources.join(" + ")))] : [];
  }
  const isOpen = (item) => state.open.has(item.id);
  const hasBelow = (item) => Boolean(item.run || item.below?.length || (state.flow && item.rows?.length));

  // ---- lines --------------------------------------------------------------------------------
  function bar(share, tone) { // of an error over what is allowed, by its power of ten: 1e-6 to 1e3
    const part = element("i");
    part.style.width = "0";
    if (share > 0) part.style.width = `${Math.min(100, Math.max(2, (100 * (Math.log10(share) + 6)) / 9))}%`;
    const text = Number.isNaN(share) ? "" : share > 1 ? `${Number(share.toPrecision(2)).toLocaleString("en", { notation: share > 1e5 ? "scientific" : "standard" })} ×` : share ? share.toExponential(0) : "0";
    return element("span", { class: "share " + tone }, element("span", { class: "bar", "aria-hidden": "true" }, part), text);
  }
  function side(one, of, other) {
    if (one.only && one.only !== of) {
      return element("span", { class: "side none" }, of === "torch" ? Kind.PAGE_NOT_IN_TORCH() : Kind.PAGE_NOT_IN_PADDLE());
    }
    const name = (of === "paddle" && one.of.paddle_names[one.i]) || one.label || Kind.PAGE_MODEL_ITSELF();
    const shape = one.of.shapes[one.i], count = one.of.parameters[of][one.i], calls = one.of.calls[one.i];
    const facts = [count && Kind.PAGE_PARAMETERS({ count }), !other && shape, !other && calls > 1 && Kind.PAGE_CALLS({ count: calls })];
    return element("span", { class: "side" }, element("span", {}, element("bdi", { class: "name" }, name), " ",
      element("bdi", { class: "class" }, one.of.classes[of][one.i]), " ",
      ...facts.filter(Boolean).map((fact) => element("span", { class: "quiet fact" }, fact))));
  }
  function said(one) {
    const verdict = verdictOf(one);
    return AGREEING.has(verdict) ? Kind.PAGE_TENSORS_AGREE({ count: one.total })
      : [...data.severity].reverse().filter((v) => one.counts[v] && !AGREEING.has(v)).map((v) => [v, one.counts[v]]).map(([v, n]) => `${counted(n)} ${v}`).join(", ");
  }
  function line(item) {
    const { level, set, place } = item;
    const made = element("div", { role: "treeitem", id: "t-" + item.id, tabindex: item.id === state.at ? "0" : "-1",
      "aria-level": String(level), "aria-setsize": String(set), "aria-posinset": String(place),
      "aria-selected": String(item.id === state.chosen),
      "aria-expanded": hasBelow(item) ? String(isOpen(item)) : null });
    const twist = element("span", { class: "twist", "aria-hidden": "true" }, hasBelow(item) ? (isOpen(item) ? "▾" : "▸") : "");
    const start = element("span", { class: "start" }, twist);
    start.style.paddingInlineStart = `${(level - 1) * 0.9}rem`;
    const tone = (verdict) => data.tones[verdict];
    const marked = (verdict) => { start.append(mark(verdict)); start.lastChild.classList.add(tone(verdict)); };
    if (item.row) {
      const { row } = item;
      const name = row.key.slice(state.tree.case.length);
      marked(row.verdict);
      made.append(element("span", { class: "side value" }, start, element("span", {}, element("bdi", {}, name), " ",
        element("span", { class: "quiet fact" }, row.shape), " ", ...fed(row))),
        element("span", { class: "said " + tone(row.verdict) }, row.verdict), bar(row.number("share"), tone(row.verdict)));
      made.classList.add("leaf");
      return made;
    }
    const whole = item.run ? merged(item.run) : item;
    const verdict = verdictOf(whole), silent = !whole.total;
    if (!silent) marked(verdict);
    if (item.run) {
      const [first, last] = [item.run[0].label, item.run.at(-1).label.match(/\d+$/)[0]];
      made.append(element("span", { class: "side fold" }, start, element("span", {}, element("bdi", { class: "name" }, Kind.PAGE_FROM_TO({ first, last })), Kind.PAGE_SAID({ said: said(whole) }))));
    } else {
      const torch = side(item, "torch");
      torch.prepend(start);
      const paddle = side(item, "paddle", item.only !== "paddle");
      const { classes, parameters, paddle_names } = item.of;
      const same = !item.only && !paddle_names[item.i] && [classes, parameters].every((of) => of.torch[item.i] === of.paddle[item.i]);
      if (same) paddle.classList.add("same"); // on a phone it is not said twice
      made.append(torch, paddle);
    }
    made.append(element("span", { class: "said " + (silent ? "quiet" : tone(verdict)) },
      silent ? (item.only ? Kind.PAGE_NO_COUNTERPART() : "") : item.run ? "" : said(whole)), silent ? element("span") : bar(whole.share, tone(verdict)));
    if (whole.origin && !item.below?.some((one) => one.origin)) made.classList.add("origin");
    return made;
  }
  const merged = (run) => run.reduce(add, { counts: {}, total: 0, worst: 0, share: NaN });
  function draw(focus) {
    items = [];
    const walk = (item, level, set, place, up) => {
      items.push(Object.assign(item, { level, set, place, up }));
      if (!isOpen(item)) return;
      const inner = item.run ?? below(item);
      inner.forEach((one, n) => walk(one, level + 1, inner.length, n + 1, item));
    };
    walk(state.tree.modules[0], 1, 1, 1, null);
    if (!items.some((item) => item.id === state.at)) state.at = items[0].id;
    const held = $("tree").contains(document.activeElement);
    $("tree").replaceChildren(...items.map(line));
    if (focus || held) $("t-" + state.at).focus({ preventScroll: !focus });
  }

  // ---- what is beside it --------------------------------------------------------------------
  function panel(item) {
    const parts = [];
    const rows = item.row ? [item.row] : item.run ? item.run.flatMap((one) => one.rows) : item.rows;
    if (item.of) {
      const { of, i } = item;
      parts.push(element("h3", {}, element("bdi", {}, item.name || Kind.PAGE_MODEL_ITSELF())));
      if (item.only) parts.push(element("p", { class: "error" }, item.only === "torch" ? Kind.PAGE_IN_TORCH_ALONE() : Kind.PAGE_IN_PADDLE_ALONE()));
      const [built, mine] = SIDES.map((s) => of.settings[s][i]);
      const off = Object.entries(built).map(([name, torch]) => [name, torch, mine[name] ?? torch]);
      for (const [name, torch, paddle] of off.filter(([, a, b]) => a !== b)) parts.push(element("p", {}, `${name}: `, element("strong", {}, Kind.PAGE_SETTING({ torch, paddle }))));
      const sources = SIDES.filter((s) => of.places[s][i]).map((s) => drawSource(s, of.places[s][i]));
      if (sources.length) parts.push(element("div", { class: "sources" }, ...sources));
      for (const row of item.rows.filter((one) => fed(one).length)) {
        parts.push(element("p", { class: "quiet" }, element("bdi", {}, row.key.slice(row.key.indexOf(":in/") + 1)), " ", ...fed(row)));
      }
    } else if (item.run) {
      parts.push(element("h3", {}, element("bdi", {}, Kind.PAGE_FROM_TO({ first: item.run[0].name, last: item.run.at(-1).name }))));
    }
    const sorted = [...rows].sort((a, b) => b.origin - a.origin || b.severity - a.severity || a.i - b.i);
    for (const row of sorted.slice(0, MOST_ROWS)) {
      const one = element("details", { class: "row" }, element("summary", {}, verdictWord(row.verdict), " ",
        element("bdi", { class: "key" }, row.key), bar(row.number("share"), data.tones[row.verdict])));
      one.addEventListener("toggle", () => { if (one.open && one.children.length === 1) one.append(...drawDetail(row)); });
      one.open = item.row !== undefined || (row === sorted[0] && starts(row));
      parts.push(one);
    }
    if (!rows.length) parts.push(element("p", { class: "quiet" }, Kind.PAGE_NO_ROWS_OF_ITS_OWN()));
    if (!item.row) {
      const button = element("button", { type: "button" }, Kind.PAGE_ROWS_FROM_HERE({ count: item.total ?? rows.length }));
      button.addEventListener("click", () => listOf(state.r, item.name ?? ""));
      if (item.name) parts.push(element("p", {}, button));
    }
    $("t-panel").replaceChildren(...parts);
    $("t-panel").scrollTop = 0;
  }

  // ---- what people do -----------------------------------------------------------------------
  const current = () => items.find((item) => item.id === state.at);
  function choose(item, focus = true) {
    state.at = state.chosen = item.id;
    panel(item);
    draw(focus);
  }
  function toggle(item, open = !isOpen(item)) {
    if (!hasBelow(item)) return;
    if (open) state.open.add(item.id); else state.open.delete(item.id);
    state.at = item.id;
    draw(true);
  }
  const go = (item) => { if (item) { state.at = item.id; draw(true); } };
  $("tree").addEventListener("click", (event) => {
    const item = items.find((one) => "t-" + one.id === event.target.closest("[role=treeitem]")?.id);
    if (!item) return;
    if (event.target.closest(".twist") || item.run) toggle(item); else choose(item);
  });
  $("tree").addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const item = current(), n = items.indexOf(item);
    const done = {
      ArrowDown: () => go(items[n + 1]),
      ArrowUp: () => go(items[n - 1]),
      ArrowRight: () => (!hasBelow(item) ? null : isOpen(item) ? go(items[n + 1]) : toggle(item, true)),
      ArrowLeft: () => (hasBelow(item) && isOpen(item) ? toggle(item, false) : go(item.up)),
      Home: () => go(items[0]),
      End: () => go(items.at(-1)),
      Enter: () => choose(item),
      " ": () => choose(item),
    }[event.key];
    if (!done) return;
    event.preventDefault();
    done();
  });
  $("t-flow").addEventListener("click", () => {
    state.flow = !state.flow;
    $("t-flow").setAttribute("aria-pressed", String(state.flow));
    draw();
  });
  function openTo(modules, one) {
    for (let up = one.parent; up >= 0; up = modules[up].parent) state.open.add(modules[up].id);
  }
  // Show a result's tree, opened on what is red, or on the module of a row.
  function show(r, row = null) {
    const modules = treeOf(r), result = data.results[r];
    const first = row ?? all[r].find(starts) ?? all[r].find((one) => FAILING.has(one.verdict));
    const known = result.tree.cases[first ? first.i : 0] ?? "";
    Object.assign(state, { r, tree: { modules, case: known }, open: new Set(["m0"]), chosen: null, at: "m0" });
    const red = modules.filter((one) => one.rows.some(starts)).slice(0, MOST_OPENED);
    for (const one of red) openTo(modules, one);
    const target = first ? modules[result.tree.of[first.i]] : null;
    $("t-result").value = String(r);
    if (target) openTo(modules, target);
    state.chosen = state.at = (target ?? modules[0]).id;
    panel(target ?? modules[0]);
    draw();
  }
  data.results.forEach((result, r) => $("t-result").append(element("option", { value: r }, titleOf(result))));
  $("t-result").addEventListener("change", () => show(Number($("t-result").value)));
  return show;
}
