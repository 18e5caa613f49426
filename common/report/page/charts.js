// The charts answer: what a point is, and which row; a part is enlarged by dragging.  Python has drawn
// them (common/report/html_charts.py): only the places of an SVG path's points are moved here.
function liveCharts({ data, all, Kind, element, setText, shown }) {
  const LEFT = 58, RIGHT = 12, TOP = 10, BOTTOM = 40, NEAR = 40, FEWEST = 8, TICKS = 5;
  const svgElement = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
    return made;
  };
  for (const svg of document.querySelectorAll("svg[data-chart]")) {
    const r = Number(svg.closest("details.result").id.slice(1));
    start(svg, data.results[r].charts[svg.dataset.chart], new Map(all[r].map((row) => [row.key, row])));
  }
  function start(svg, live, rows) {
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    const whole = { left: LEFT, right: width - RIGHT, top: TOP, bottom: height - BOTTOM };
    const figure = svg.closest("figure"), plot = svg.querySelector(".plot"), axes = svg.querySelector(".axes");
    const first = { axes: [...axes.childNodes], paths: [...plot.querySelectorAll("path")].map((path) => [path, path.getAttribute("d")]) };
    const tip = element("p", { class: "tip", hidden: true });
    const all = element("button", { type: "button", class: "whole", hidden: true }, Kind.CHART_WHOLE());
    const ring = svgElement("circle", { class: "ring", r: 6, visibility: "hidden" });
    const frame = svgElement("rect", { class: "frame", visibility: "hidden" });
    plot.append(ring, frame);
    figure.append(tip, all);
    let view = whole, from = null, near = null;

    const x = (value) => whole.left + ((value - view.left) * (whole.right - whole.left)) / (view.right - view.left);
    const y = (value) => whole.top + ((value - view.top) * (whole.bottom - whole.top)) / (view.bottom - view.top);
    const back = (at) => ({ x: view.left + ((at.x - whole.left) * (view.right - view.left)) / (whole.right - whole.left),
      y: view.top + ((at.y - whole.top) * (view.bottom - view.top)) / (whole.bottom - whole.top) });
    const place = (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      return { x: Math.min(whole.right, Math.max(whole.left, at.x)), y: Math.min(whole.bottom, Math.max(whole.top, at.y)) };
    };
    function draw() {
      for (const [path, d] of first.paths) {
        path.setAttribute("d", d.replace(/([ML])(-?[\d.]+) (-?[\d.]+)/g, (_, pen, a, b) => `${pen}${x(Number(a)).toFixed(1)} ${y(Number(b)).toFixed(1)}`));
      }
      axes.replaceChildren(...(view === whole ? first.axes : ticks()));
      all.hidden = view === whole;
    }
    function ticks() {
      const found = [], seen = new Set();
      const text = (name, a, b, said) => { const one = svgElement("text", { class: "tick " + name, x: a, y: b }); one.textContent = said; found.push(one); };
      for (let n = 0; n <= TICKS; n += 1) {
        const at = back({ x: whole.left + (n / TICKS) * (whole.right - whole.left), y: whole.top + (n / TICKS) * (whole.bottom - whole.top) });
        const step = Math.round(live.x[0] + ((at.x - whole.left) / (whole.right - whole.left)) * (live.x[1] - live.x[0]));
        const place = whole.left + ((step - live.x[0]) / (live.x[1] - live.x[0] || 1)) * (whole.right - whole.left);
        if (!seen.has(step) && place >= view.left && place <= view.right) text("middle", x(place), height - 24, step);
        seen.add(step);
        const value = live.y[1] - ((at.y - whole.top) / (whole.bottom - whole.top)) * (live.y[1] - live.y[0]);
        found.push(svgElement("path", { class: "grid", d: `M${LEFT} ${y(at.y)}H${whole.right}` }));
        text("end", 52, y(at.y) + 4, live.log ? (10 ** value).toExponential(1) : Number(value.toPrecision(4)));
      }
      return found;
    }
    function told([, , lines, key]) {
      const row = rows.get(key);
      if (row) return Kind.CHART_POINT({ key, verdict: row.verdict, gap: shown(row.number("gap")), allowed: shown(row.number("allowed")), mean: shown(row.number("mean_abs")) });
      const texts = lines.map((line) => data.texts[line]);
      return lines.length ? [0, 1].map((n) => texts.map((text) => text[n] ?? text[0]).join("\n")) : [key];
    }
    function hover(at, event) {
      const apart = (point) => Math.hypot(x(point[0]) - at.x, (y(point[1]) - at.y) / 4);
      near = live.hover.reduce((best, point) => (!best || apart(point) < apart(best) ? point : best), null);
      if (near && apart(near) > NEAR) near = null;
      ring.setAttribute("visibility", near ? "visible" : "hidden");
      tip.hidden = !near;
      svg.classList.toggle("leads", Boolean(near && rows.get(near[3])));
      if (!near) return;
      ring.setAttribute("cx", x(near[0]));
      ring.setAttribute("cy", y(near[1]));
      setText(tip, told(near));
      tip.style.top = `${event.clientY - figure.getBoundingClientRect().top + 16}px`;
    }
    svg.addEventListener("pointermove", (event) => {
      const at = place(event);
      if (!from) { hover(at, event); return; }
      const box = { x: Math.min(at.x, from.x), y: Math.min(at.y, from.y), width: Math.abs(at.x - from.x), height: Math.abs(at.y - from.y) };
      if (box.height < 2 * FEWEST) Object.assign(box, { y: whole.top, height: whole.bottom - whole.top }); // along x alone
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
        const [low, high] = [back(box), back({ x: box.x + box.width, y: box.y + box.height })];
        view = { left: low.x, right: high.x, top: low.y, bottom: high.y };
        draw();
      } else if (near && rows.get(near[3])) location.hash = rows.get(near[3]).href;
    });
    svg.addEventListener("pointercancel", () => { from = null; frame.setAttribute("visibility", "hidden"); });
    svg.addEventListener("pointerleave", () => { if (!from) { ring.setAttribute("visibility", "hidden"); tip.hidden = true; } });
    svg.addEventListener("dragstart", (event) => event.preventDefault());
    const reset = () => { view = whole; draw(); };
    svg.addEventListener("dblclick", reset);
    all.addEventListener("click", reset);
  }
}
