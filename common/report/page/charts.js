// The charts: each is one table of numbers (common/report/html_charts.py), drawn here.  They say what
// a point is, and which row; a part is enlarged by dragging.
function liveCharts({ data, all, Kind, element, setText, shown }) {
  const LEFT = 58, RIGHT = 12, TOP = 10, BOTTOM = 40, NEAR = 40, FEWEST = 8, LEAST = 1e-20; // what is smaller is drawn as 0
  // Marks differ in shape, so that no chart is read by its colours alone.  A dot is a line of no length.
  const MARKS = {
    circle: (x, y) => `M${x} ${y}h0`,
    square: (x, y) => `M${x} ${y}h0`,
    triangle: (x, y) => `M${x} ${y - 4}l4 7h-8z`,
    diamond: (x, y) => `M${x} ${y - 4}l4 4-4 4-4-4z`,
    cross: (x, y) => `M${x - 4} ${y - 4}l8 8m0-8l-8 8`,
    bar: (x, y) => `M${x - 4} ${y}h8`,
  };
  const svgElement = (name, attributes, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
    made.textContent = text;
    return made;
  };
  data.results.forEach((result, r) => {
    const rows = new Map(all[r].map((row) => [row.key, row]));
    document.querySelectorAll(`#r${r} .drawn > svg`).forEach((svg, n) => start(svg, result.charts[n], rows));
  });
  // Round numbers between two, about five; of powers of ten and of steps whole ones alone.
  function round(low, high, whole) {
    const power = 10 ** Math.floor(Math.log10((high - low) / 5));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => (high - low) / one <= 6);
    const used = whole ? Math.max(1, Math.ceil(step)) : step;
    const first = Math.ceil(low / used - 1e-9);
    return Array.from({ length: Math.max(0, Math.floor(high / used + 1e-9) - first + 1) }, (_, i) => Number(((first + i) * used).toPrecision(12)));
  }
  function extent({ log, x, series }) {
    const found = series.flatMap(({ values, low }) => [...values, ...low]).filter((v) => Number.isFinite(v) && (!log || v > LEAST));
    const values = found.length ? found : [log ? 1e-8 : 0, 1];
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const across = [x[0], Math.max(x.at(-1), x[0] + 1)];
    const room = (high - low || Math.abs(high) || 1) * 0.05;
    if (!log) return { x: across, y: [low - room, high + room] };
    const [bottom, top] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
    const decades = Math.max(1, top - bottom);
    return { x: across, y: [bottom - 0.06 * decades, bottom + decades] }; // 0 is below the powers of ten
  }
  function start(svg, chart, rows) {
    const { log, first, series, keys } = chart;
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    const inner = { left: LEFT, right: width - RIGHT, top: TOP, bottom: height - BOTTOM };
    const figure = svg.closest("figure"), plot = svg.querySelector(".plot"), axes = svg.querySelector(".axes");
    const tip = element("p", { class: "tip", hidden: true });
    const back = element("button", { type: "button", class: "whole", hidden: true }, Kind.CHART_WHOLE());
    const ring = svgElement("circle", { class: "ring", r: 6, visibility: "hidden" });
    const frame = svgElement("rect", { class: "frame", visibility: "hidden" });
    figure.append(tip, back);
    const whole = extent(chart);
    let view = whole, from = null, near = null;

    const shortly = (value) => (value === null ? "–" : String(Number(value.toPrecision(6))));
    const tenth = (value) => Math.round(10 * value) / 10;
    const scaled = (value) => Math.min(whole.y[1], Math.max(whole.y[0], !log ? value : value > LEAST ? Math.log10(value) : -Infinity));
    const x = (value) => tenth(inner.left + ((value - view.x[0]) * (inner.right - inner.left)) / (view.x[1] - view.x[0]));
    const heightOf = (value) => tenth(inner.bottom - ((value - view.y[0]) * (inner.bottom - inner.top)) / (view.y[1] - view.y[0]));
    const y = (value) => heightOf(scaled(value));
    const place = (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      return { x: Math.min(inner.right, Math.max(inner.left, at.x)), y: Math.min(inner.bottom, Math.max(inner.top, at.y)) };
    };
    const between = (low, high, share) => low + share * (high - low);
    const valueAt = (at) => ({ x: between(...view.x, (at.x - inner.left) / (inner.right - inner.left)), y: between(...view.y, (inner.bottom - at.y) / (inner.bottom - inner.top)) });
    function line(numbers, values, pen = "M") {
      return numbers.map((i) => {
        const part = values[i] === null ? "" : `${pen}${x(chart.x[i])} ${y(values[i])}`;
        pen = part ? "L" : "M";
        return part;
      }).join("");
    }
    function path({ mark, values, low }) {
      const there = [...chart.x.keys()];
      if (MARKS[mark]) return [...new Set(there.filter((i) => values[i] !== null).map((i) => MARKS[mark](x(chart.x[i]), y(values[i]))))].join("");
      if (mark !== "band") return line(there, values);
      const filled = there.filter((i) => values[i] !== null);
      const floor = low.length ? low : values.map(() => (log ? 0 : whole.y[0]));
      return filled.length ? `${line(filled, values)}${line([...filled].reverse(), floor, "L")}z` : "";
    }
    function draw() {
      plot.replaceChildren(...series.map((one) => svgElement("path", { class: `${one.mark} ${one.tone}`, d: path(one) })), ring, frame);
      const across = round(view.x[0] + first, view.x[1] + first, true)
        .map((tick) => svgElement("text", { class: "tick middle", x: x(tick - first), y: height - 24 }, tick));
      const decades = log && view.y[1] - view.y[0] >= 2;
      const named = (tick) => (decades ? `1e${tick}` : log ? (10 ** tick).toExponential(1) : tick);
      const up = round(...view.y, decades).map((tick) => [heightOf(tick), named(tick)]);
      if (log && view === whole) up.push([heightOf(whole.y[0]), "0"]);
      axes.replaceChildren(...across, ...up.flatMap(([at, text]) => [svgElement("path", { class: "grid", d: `M${LEFT} ${at}H${inner.right}` }),
        svgElement("text", { class: "tick end", x: 52, y: at + 4 }, text)]));
      back.hidden = view === whole;
    }
    const drawn = (i) => series.findLast(({ values }) => values[i] !== null)?.values[i];
    const points = chart.x.map((at, i) => [at, drawn(i), i]).filter(([, value]) => value !== undefined);
    function told(i) {
      const row = rows.get(keys[i]);
      if (row) return Kind.CHART_POINT({ key: row.key, verdict: row.verdict, gap: shown(row.number("gap")), allowed: shown(row.number("allowed")), mean: shown(row.number("mean_abs")) });
      const number = chart.x[i] + first;
      if (log) {
        const lines = [[Kind.HEADING_STEP(), String(number)], ...series.map(({ name, values }) => [data.texts[name], shown(values[i] ?? NaN)])];
        const texts = lines.map(([whose, note]) => Kind.NOTE_OF({ whose, note }));
        return [0, 1].map((n) => texts.map((text) => text[n] ?? text[0]).join("\n"));
      }
      const [torch, paddle] = series.slice(-2).map(({ values }) => values[i]);
      const [a, b, apart] = [shortly(torch), shortly(paddle), shown(torch - paddle)];
      return chart.epochs ? Kind.CHART_EPOCH_TOLD({ number, torch: a, paddle: b, apart }) : Kind.CHART_STEP_TOLD({ number, torch: a, paddle: b, apart });
    }
    function hover(at, event) {
      const apart = ([value, of]) => Math.hypot(x(value) - at.x, (y(of) - at.y) / 4);
      near = points.reduce((best, point) => (!best || apart(point) < apart(best) ? point : best), null);
      if (near && apart(near) > NEAR) near = null;
      ring.setAttribute("visibility", near ? "visible" : "hidden");
      tip.hidden = !near;
      svg.classList.toggle("leads", Boolean(near && rows.get(keys[near[2]])));
      if (!near) return;
      ring.setAttribute("cx", x(near[0]));
      ring.setAttribute("cy", y(near[1]));
      setText(tip, told(near[2]));
      tip.style.top = `${event.clientY - figure.getBoundingClientRect().top + 16}px`;
    }
    svg.addEventListener("pointermove", (event) => {
      const at = place(event);
      if (!from) { hover(at, event); return; }
      const box = { x: Math.min(at.x, from.x), y: Math.min(at.y, from.y), width: Math.abs(at.x - from.x), height: Math.abs(at.y - from.y) };
      if (box.height < 2 * FEWEST) Object.assign(box, { y: inner.top, height: inner.bottom - inner.top }); // along x alone
      for (const [name, value] of Object.entries(box)) frame.setAttribute(name, value);
      frame.setAttribute("visibility", box.width < FEWEST ? "hidden" : "visible");
      from.box = box;
    });
    svg.addEventListener("pointerdown", (event) => { if (event.button === 0) { from = place(event); svg.setPointerCapture(event.pointerId); } });
    svg.addEventListener("pointerup", () => {
      const box = from?.box;
      from = null;
      frame.setAttribute("visibility", "hidden");
      if (box?.width >= FEWEST) {
        const [low, high] = [valueAt({ x: box.x, y: box.y + box.height }), valueAt({ x: box.x + box.width, y: box.y })];
        view = { x: [low.x, high.x], y: [low.y, high.y] };
        draw();
      } else if (near && rows.get(keys[near[2]])) location.hash = rows.get(keys[near[2]]).href;
    });
    svg.addEventListener("pointercancel", () => { from = null; frame.setAttribute("visibility", "hidden"); });
    svg.addEventListener("pointerleave", () => { if (!from) { ring.setAttribute("visibility", "hidden"); tip.hidden = true; } });
    svg.addEventListener("dragstart", (event) => event.preventDefault());
    const reset = () => { view = whole; draw(); };
    svg.addEventListener("dblclick", reset);
    back.addEventListener("click", reset);
    reset();
  }
}
