// The list of tensors: unpacks the rows (common/report/html_rows.py), filters, sorts, opens them.
// Every text is put in by textContent, so that what came from a log is never markup.
(async () => {
  if (!self.DecompressionStream) {
    document.getElementById("too-old").hidden = false;
    return;
  }
  const packed = atob(document.getElementById("data").textContent);
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = await new Response(stream).json();
  const PAGE_ROWS = 50, PRINTED_ROWS = 1000;
  const AGREEING = new Set(data.agreeing);

  // ---- rows -----------------------------------------------------------------------------------
  class Row {
    constructor(result, r, i) { this.result = result; this.r = r; this.i = i; }
    get key() { return this.result.keys[this.i]; }
    get verdict() { return this.result.verdicts[this.i]; }
    get severity() { return data.severity.indexOf(this.verdict); }
    get note() { return data.texts[this.result.notes[this.i]]; }
    get shape() { return this.result.shapes[this.i]; }
    get order() { return this.result.order ? this.result.order[this.i] : this.i; }
    flag(name) { return this.result.flags[name][this.i]; }
    get origin() { return this.flag("origin") && !AGREEING.has(this.verdict); }
    get guide() { return { true: Kind.GUIDE_PASSED(), false: Kind.GUIDE_FAILED(), null: ["–"] }[this.flag("guide_passed")]; }
    number(name) {
      if (name === "share") {
        const gap = this.number("gap"), allowed = this.number("allowed");
        return allowed > 0 ? gap / allowed : NaN;
      }
      return this.result.numbers[name][this.i] ?? NaN;
    }
    get decided() { // what decided it, as a terminal says it (common/report/sentences.py)
      const figure = (value) => (value === 0 ? "0.00e+00" : shown(value));
      return data.texts[this.result.decided[this.i]].map((text) => text.replace(/\{(\w+)\}/g, (_, name) => figure(this.number(name))));
    }
    place(side) { return this.result.places[side][this.i]; }
    get words() { return this.text ??= [this.key, ...this.note].join(" ").toLowerCase(); }
    get href() { return "#" + encoded(this.result.name + "/" + this.key); }
  }
  const encoded = (text) => text.split("/").map((part) => {
    try { return encodeURIComponent(part); } catch { return ""; }
  }).join("/");
  const all = data.results.map((result, r) => Array.from({ length: result.count }, (_, i) => new Row(result, r, i)));

  // ---- small helpers --------------------------------------------------------------------------
  const $ = (id) => document.getElementById(id);
  // What people read is a list: its English, and the other language's text where that is another.
  // A sentence is told by its kind (common/report/reasons/page.toml) and fields.
  const Kind = Object.fromEntries(Object.entries(data.words).map(([name, templates]) => [name, (fields = {}) => {
    const said = [0, 1].map((n) => inTurn(templates, n).replace(/\{(\w+):?([^{}]*)\}/g, (_, field, words) => {
      const value = fields[field], [one, many] = words.split("|");
      const text = Array.isArray(value) ? inTurn(value, n) : typeof value === "number" ? counted(value) : value;
      return many ? `${text} ${value === 1 ? one : many}` : text;
    }));
    return said[0] === said[1] ? said.slice(1) : said;
  }]));
  const inTurn = (texts, n) => texts[n] ?? texts[0];
  let turned = 0; // whether the other language is shown
  function setText(node, text) {
    node.textContent = inTurn(text, turned);
    delete node.dataset.other;
    if (text[1]) node.dataset.other = inTurn(text, 1 - turned);
  }
  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [attribute, value] of Object.entries(attributes)) {
      if (Array.isArray(value)) {
        made.setAttribute(attribute, inTurn(value, turned));
        if (value[1]) made.setAttribute("data-other-" + attribute, inTurn(value, 1 - turned));
      } else if (value !== false && value !== null) made.setAttribute(attribute, value === true ? "" : value);
    }
    if (children.length === 1 && Array.isArray(children[0])) setText(made, children[0]);
    else made.append(...children.map((one) => (Array.isArray(one) ? element("span", {}, one) : one)));
    return made;
  }
  const attributes = ["lang", "aria-label", "title", "data-label"];
  function changeLanguage() {
    turned = 1 - turned;
    for (const one of document.querySelectorAll("[data-other]")) [one.textContent, one.dataset.other] = [one.dataset.other, one.textContent];
    for (const one of document.querySelectorAll(".either")) one.hidden = !one.hidden;
    for (const [here, there] of attributes.map((name) => [name, "data-other-" + name])) {
      for (const one of document.querySelectorAll(`[${there}]`)) {
        const now = one.getAttribute(here);
        one.setAttribute(here, one.getAttribute(there));
        one.setAttribute(there, now);
      }
    }
  }
  function mark(verdict) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "mark");
    svg.setAttribute("aria-hidden", "true");
    const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
    use.setAttribute("href", "#v-" + verdict);
    svg.append(use);
    return svg;
  }
  const verdictWord = (verdict) =>
    element("span", { class: "verdict " + data.tones[verdict] }, mark(verdict), verdict);
  const shown = (value) => // 2.39e-08, as everywhere else
    Number.isNaN(value) ? "–" : value === Infinity ? "∞" : value === 0 ? "0"
      : value.toExponential(2).replace(/e([+-])(\d)$/, "e$10$2");
  const counted = (count) => count.toLocaleString("en");

  // ---- the controls ---------------------------------------------------------------------------
  const COLUMNS = [
    { id: "order", label: ["#"], long: Kind.COLUMN_ORDER(), figure: true },
    { id: "verdict", label: Kind.COLUMN_VERDICT() },
    { id: "key", label: Kind.COLUMN_TENSOR() },
    { id: "mean_abs", label: Kind.COLUMN_MEAN(), long: Kind.COLUMN_MEAN_LONG(), figure: true },
    { id: "max_abs", label: Kind.COLUMN_MAX(), long: Kind.COLUMN_MAX_LONG(), figure: true },
    { id: "noise_ref", label: Kind.COLUMN_NOISE_TORCH(), figure: true },
    { id: "noise_cand", label: Kind.COLUMN_NOISE_PADDLE(), figure: true },
    { id: "gap", label: Kind.COLUMN_GAP(), figure: true },
    { id: "share", label: Kind.COLUMN_SHARE(), long: Kind.COLUMN_SHARE_LONG(), figure: true },
  ];
  const isRed = (result) => data.failing.some((verdict) => result.verdicts.includes(verdict));
  const red = data.results.some(isRed);
  const state = { result: data.results.length === 1 ? 0 : -1, text: "", kind: "", off: new Set(),
    sort: red ? "verdict" : "order", up: !red, first: 0, opened: new Set(), target: null };
  if (red) state.result = Math.max(0, data.results.findIndex(isRed));

  const chosen = $("f-result");
  const titleOf = (result) => data.texts[result.title];
  if (data.results.length > 1) chosen.append(element("option", { value: "-1" }, Kind.PAGE_ALL_RESULTS()));
  data.results.forEach((result, r) => chosen.append(element("option", { value: r }, Kind.PAGE_RESULT_COUNTED({ title: titleOf(result), count: result.count }))));
  const sortBy = $("f-sort");
  for (const { id, label, long } of COLUMNS) {
    const column = long ?? label;
    if (id === "order" || id === "key") sortBy.append(element("option", { value: id + " up" }, column));
    else sortBy.append(element("option", { value: id + " down" }, id === "verdict" ? Kind.PAGE_WORST_FIRST({ column }) : Kind.PAGE_LARGEST_FIRST({ column })));
  }
  const heads = $("heads");
  for (const { id, label, long, figure } of COLUMNS) {
    const button = element("button", { type: "button", title: long ?? null }, label, element("span", { class: "arrow", "aria-hidden": "true" }));
    button.addEventListener("click", () => {
      const downFirst = id !== "order" && id !== "key";
      state.up = state.sort === id ? !state.up : !downFirst;
      state.sort = id;
      update();
    });
    heads.append(element("th", { scope: "col", role: "columnheader", "data-sort": id, class: figure && "figure" }, button));
  }

  function drawVerdicts() {
    const counts = new Map();
    for (const row of pool()) counts.set(row.verdict, (counts.get(row.verdict) ?? 0) + 1);
    $("f-verdicts").replaceChildren(...[...data.severity].reverse().filter((v) => counts.has(v)).map((verdict) => {
      const box = element("input", { type: "checkbox", value: verdict });
      box.checked = !state.off.has(verdict);
      box.addEventListener("change", () => {
        if (box.checked) state.off.delete(verdict); else state.off.add(verdict);
        state.first = 0;
        update();
      });
      return element("label", {}, box, " ", verdictWord(verdict), " " + counted(counts.get(verdict)));
    }));
  }

  // ---- which rows, in which order -------------------------------------------------------------
  const pool = () => (state.result < 0 ? all.flat() : all[state.result] ?? []);
  let list = [];
  function select() {
    const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
    const { kind, off } = state;
    const wanted = {
      "": () => true,
      origins: (row) => row.origin,
      choices: (row) => row.result.choices.includes(row.i),
      claims: (row) => row.result.claims.includes(row.i),
      guide: (row) => row.flag("guide_passed") === false,
    }[kind];
    list = pool().filter((row) => !off.has(row.verdict) && wanted(row) && words.every((word) => row.words.includes(word)));
    const sign = state.up ? 1 : -1;
    const inOrder = (a, b) => a.r - b.r || a.i - b.i;
    const by = {
      order: inOrder,
      key: (a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0),
      verdict: (a, b) => a.severity - b.severity || a.origin - b.origin,
    }[state.sort];
    if (by) {
      list.sort((a, b) => sign * by(a, b) || inOrder(a, b));
    } else {
      const values = new Map(list.map((row) => [row, row.number(state.sort)]));
      list.sort((a, b) => { // what is undefined comes last, either way
        const x = values.get(a), y = values.get(b);
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || inOrder(a, b);
        return (x === y ? 0 : sign * (x < y ? -1 : 1)) || inOrder(a, b);
      });
    }
  }

  // ---- drawing --------------------------------------------------------------------------------
  function draw(count = PAGE_ROWS) {
    const part = list.slice(state.first, state.first + count);
    const drawn = [];
    for (const row of part) {
      drawn.push(...drawRow(row));
    }
    $("rows").replaceChildren(...drawn);
    for (const head of heads.children) {
      const sorted = head.dataset.sort === state.sort;
      if (sorted) head.setAttribute("aria-sort", state.up ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
      head.querySelector(".arrow").textContent = sorted ? (state.up ? "▲" : "▼") : "";
    }
    sortBy.value = state.sort + (state.up ? " up" : " down");
    const last = state.first + part.length;
    setText($("page"), list.length ? Kind.PAGE_PART_OF_ROWS({ first: state.first + 1, last, count: list.length }) : Kind.PAGE_NO_ROWS());
    $("previous").disabled = state.first === 0;
    $("next").disabled = last >= list.length;
  }
  function drawRow(row) {
    const verdict = row.verdict;
    const isOpen = state.opened.has(row);
    const id = `o${row.r}-${row.i}`;
    const button = element("button", { type: "button", "aria-expanded": String(isOpen), "aria-controls": isOpen && id });
    button.append(element("bdi", {}, row.key));
    button.addEventListener("click", () => {
      if (state.opened.has(row)) state.opened.delete(row); else state.opened.add(row);
      const drawn = drawRow(row);
      const old = [button.closest("tr")];
      if (isOpen) old.push(old[0].nextElementSibling);
      old[0].before(...drawn);
      old.forEach((one) => one.remove());
      drawn[0].querySelector("button").focus();
    });
    const name = element("td", { role: "cell", class: "key" }, button);
    if (state.result < 0) name.append(element("span", { class: "small" }, titleOf(row.result)));
    const figures = COLUMNS.slice(3).map(({ id, label }) =>
      element("td", { role: "cell", class: "figure", "data-label": label }, shown(row.number(id))));
    const line = element("tr", { role: "row", class: [row.origin && "origin", isOpen && "opened", state.target === row && "target"].filter(Boolean).join(" ") },
      element("td", { role: "cell", class: "figure quiet", "data-label": "#" }, counted(row.order + 1)),
      element("td", { role: "cell", "data-label": COLUMNS[1].label }, verdictWord(verdict)), name, ...figures);
    if (!isOpen) return [line];
    const detail = element("td", { role: "cell", class: "detail", colspan: COLUMNS.length, id });
    detail.append(...drawDetail(row));
    return [line, element("tr", { role: "row", class: "more" }, detail)];
  }
  function drawDetail(row) {
    const facts = element("dl");
    const add = (what, text) => {
      if (text[0]) facts.append(element("dt", {}, what), element("dd", {}, text));
    };
    add(Kind.HEADING_VERDICT(), Kind.ROW_MEANS({ verdict: row.verdict, meaning: data.texts[data.meanings[row.verdict]] }));
    if (row.origin) add(Kind.ROW_ORIGIN(), Kind.ROW_STARTS_HERE());
    const described = row.result.described[row.i];
    if (described) described.forEach((line, n) => add(n ? ["\u00a0"] : Kind.ROW_IN_NUMBERS(), data.texts[line]));
    else {
      add(Kind.ROW_IN_NUMBERS(), row.decided);
      add(Kind.ROW_DIGITS(), data.texts[row.result.digits[row.i] ?? 0]);
      add(Kind.ROW_GUIDE(), row.guide);
    }
    add(Kind.ROW_SHAPE(), row.shape ? [row.shape] : Kind.ROW_SCALAR());
    if (row.flag("inside")) add(Kind.ROW_INSIDE(), Kind.ROW_IS_INSIDE());
    if (row.flag("noise_only")) add(Kind.ROW_ZERO_IS(), Kind.ROW_IS_ZERO());
    if (row.flag("capped")) add(Kind.ROW_CAPPED(), Kind.ROW_IS_CAPPED());
    if (!described) add(Kind.NOTE(), row.note);
    const parts = [facts, ...drawValues(row)];
    const sources = element("div", { class: "sources" });
    for (const side of ["torch", "paddle"]) {
      const place = row.place(side);
      if (place) sources.append(drawSource(side, place));
    }
    if (sources.children.length) parts.push(sources);
    const link = element("a", { href: row.href }, Kind.ROW_LINK());
    parts.push(element("p", {}, link));
    if (!row.result.claims.includes(row.i)) {
      const command = row.result.look.replace(/\bKEY\b/, () => quoted(row.key));
      parts.push(element("p", {}, copyable(command)));
    }
    return parts;
  }
  // The worst elements, and how many differences have which size (common/report/html_values.py).
  function drawValues(row) {
    const values = row.result.values?.[row.i];
    if (!values) return [];
    const parts = [];
    if (values.worst.length) {
      const table = element("table", {}, element("caption", {}, Kind.ROW_WORST_IN({ run: values.run })));
      const head = [Kind.ROW_AT(), Kind.HEADING_TORCH(), Kind.HEADING_PADDLE(), Kind.ROW_APART()].map((word) => element("th", { scope: "col" }, word));
      const lines = values.worst.map(([at, ...numbers]) =>
        element("tr", {}, ...[`[${at.join(", ")}]`, ...numbers].map((text) => element("td", {}, text))));
      table.append(element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...lines));
      parts.push(element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": Kind.ROW_WORST() }, table));
    }
    const seen = values.sizes.map((count, n) => [count, data.decades[n]]).filter(([count]) => count);
    if (seen.length) {
      const [low, high] = [seen[0][1], seen.at(-1)[1]];
      const most = Math.max(...values.sizes);
      const bars = element("span", { class: "bars" });
      for (let power = low; power <= high; power += 1) {
        const count = values.sizes[data.decades.indexOf(power)];
        const bar = element("i", { title: Kind.ROW_BAR({ count, low: power, high: power + 1 }) });
        bar.style.height = `${count ? Math.max(4, (100 * count) / most) : 0}%`;
        bars.append(element("span", {}, bar));
      }
      parts.push(element("figure", { class: "histogram" }, bars, element("figcaption", {},
        Kind.ROW_SIZES({ low, high: high + 1, alike: values.alike, run: values.run }))));
    }
    return parts;
  }
  const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);
  const sides = { torch: Kind.HEADING_TORCH(), paddle: Kind.HEADING_PADDLE() };
  function drawSource(side, place) {
    const uses = place.endsWith("*");
    const name = uses ? place.slice(0, -1) : place;
    const cut = name.lastIndexOf(":");
    const lines = data.sources[name.slice(0, cut)] ?? {};
    const here = Number(name.slice(cut + 1));
    const caption = element("figcaption", {}, element("strong", {}, sides[side]), " ", element("bdi", {}, name), ...(uses ? [" ", Kind.PAGE_WHERE_USED()] : []));
    const figure = element("figure", { class: "source " + side }, caption);
    if (!(here in lines)) {
      figure.append(element("p", { class: "quiet" }, Kind.PAGE_SOURCE_UNREADABLE()));
      return figure;
    }
    const code = element("pre", { tabindex: "0", "aria-label": Kind.PAGE_SOURCE_OF({ side: sides[side] }) });
    const numbers = [-2, -1, 0, 1, 2].map((by) => here + by).filter((number) => number in lines);
    const indents = numbers.filter((number) => lines[number].trim()).map((number) => lines[number].search(/\S/));
    const indent = Math.min(...indents);
    for (const number of numbers) {
      code.append(element("span", { class: number === here ? "line here" : "line" },
        element("span", { class: "number" }, (number === here ? "▶ " : "") + number), lines[number].slice(indent) + "\n"));
    }
    figure.append(code);
    return figure;
  }
  function copyable(command) {
    const button = element("button", { type: "button", class: "copy" }, Kind.PAGE_COPY());
    return element("span", { class: "command" }, element("code", {}, command), button);
  }

  // ---- updating -------------------------------------------------------------------------------
  function update() {
    select();
    if (state.first >= list.length) state.first = 0;
    draw();
    const off = list.reduce((sum, row) => sum + !AGREEING.has(row.verdict), 0);
    const where = state.result < 0 ? Kind.PAGE_ALL_RESULTS() : titleOf(data.results[state.result]);
    const counts = { count: list.length, all: pool().length, where, off };
    setText($("found"), off ? Kind.PAGE_FOUND_OFF(counts) : Kind.PAGE_FOUND(counts));
  }
  function choose(result) {
    state.result = result;
    chosen.value = String(result);
    state.first = 0;
    state.off.clear();
    drawVerdicts();
  }
  let waiting = 0;
  $("f-text").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { state.text = $("f-text").value; state.first = 0; update(); }, 120);
  });
  $("f-kind").addEventListener("change", () => { state.kind = $("f-kind").value; state.first = 0; update(); });
  chosen.addEventListener("change", () => { choose(Number(chosen.value)); update(); });
  sortBy.addEventListener("change", () => {
    const [id, way] = sortBy.value.split(" ");
    state.sort = id; state.up = way === "up"; state.first = 0;
    update();
  });
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  function turn(by) {
    state.first = Math.max(0, state.first + by * PAGE_ROWS);
    draw();
    $("h-tensors").focus();
    $("h-tensors").scrollIntoView();
  }
  $("previous").addEventListener("click", () => turn(-1));
  $("next").addEventListener("click", () => turn(1));

  document.addEventListener("click", (event) => {
    const toAll = event.target.closest?.("a.all");
    if (toAll) {
      $("all-rows").open = true;
      choose(Number(toAll.dataset.result));
      state.kind = $("f-kind").value = toAll.dataset.kind ?? "";
      update();
    }
    const copy = event.target.closest?.(".copy");
    if (copy) copyText(copy);
    const inPage = event.target.closest?.('a[href^="#"]');
    if (inPage && inPage.getAttribute("href") === location.hash) follow(); // no hashchange comes
  });
  async function copyText(button) {
    const code = button.previousElementSibling;
    const range = document.createRange();
    range.selectNodeContents(code);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    try { await navigator.clipboard.writeText(code.textContent); setText(button, Kind.PAGE_COPIED()); }
    catch { setText(button, document.execCommand?.("copy") ? Kind.PAGE_COPIED() : Kind.PAGE_SELECTED()); }
    setTimeout(() => setText(button, Kind.PAGE_COPY()), 1500);
  }

  function listOf(r, words) {
    $("all-rows").open = true;
    choose(r);
    $("f-text").value = state.text = words;
    update();
    $("h-tensors").scrollIntoView();
    $("h-tensors").focus();
  }

  // ---- links to a row: #step1/model/key -------------------------------------------------------
  function follow() {
    let wanted = location.hash.slice(1);
    try { wanted = decodeURIComponent(wanted); } catch { return; }
    const block = document.getElementById(location.hash.slice(1));
    if (block instanceof HTMLDetailsElement) block.open = true;
    const r = data.results.findIndex((result) => wanted === result.name || wanted.startsWith(result.name + "/"));
    if (r < 0) return;
    const key = wanted.slice(data.results[r].name.length + 1);
    if (!key) {
      const section = $("r" + r);
      section.open = true;
      section.scrollIntoView();
      section.querySelector("summary").focus({ preventScroll: true });
      return;
    }
    const row = all[r].find((one) => one.key === key);
    $("all-rows").open = true;
    choose(r);
    state.text = $("f-text").value = "";
    state.kind = $("f-kind").value = "";
    if (!row) {
      update();
      setText($("found"), Kind.PAGE_NO_SUCH_ROW({ title: titleOf(data.results[r]), key }));
      $("h-tensors").scrollIntoView();
      return;
    }
    state.target = row;
    state.opened.add(row);
    select();
    state.first = Math.floor(list.indexOf(row) / PAGE_ROWS) * PAGE_ROWS;
    update();
    const line = document.querySelector("#rows tr.target");
    line.querySelector("button").focus({ preventScroll: true });
    line.scrollIntoView({ block: "center" });
  }
  addEventListener("hashchange", follow);

  // ---- print: all is open, and as many rows as paper can bear ----------------------------------
  let closed = null;
  function beforePrint() {
    if (closed) return;
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((one) => { one.open = true; });
    const first = state.first;
    state.first = 0;
    draw(PRINTED_ROWS);
    state.first = first;
    if (list.length > PRINTED_ROWS) {
      const text = Kind.PAGE_NOT_PRINTED({ count: list.length - PRINTED_ROWS });
      $("rows").append(element("tr", { role: "row" }, element("td", { role: "cell", colspan: COLUMNS.length }, text)));
    }
  }
  function afterPrint() {
    if (!closed) return;
    closed.forEach((one) => { one.open = false; });
    closed = null;
    draw();
  }
  addEventListener("beforeprint", beforePrint);
  addEventListener("afterprint", afterPrint);
  matchMedia("print").addEventListener("change", (event) => (event.matches ? beforePrint() : afterPrint()));

  for (const one of document.querySelectorAll(".scripted, .copy")) one.hidden = false;
  choose(state.result);
  update();
  const showTree = modelTree({ data, all, $, Kind, element, titleOf, verdictWord, mark, counted, drawDetail, drawSource, listOf });
  showTree(Math.max(0, state.result));
  liveCharts({ data, all, Kind, element, setText, shown });
  follow();
  document.querySelector(".language button")?.addEventListener("click", changeLanguage);
  if (data.turned) changeLanguage();
})();
