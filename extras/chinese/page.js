// The page in another language: what Python and the scripts wrote in English is looked up where it
// stands, and again where more is drawn.  The same look-up as in extras/chinese/catalogue.py, of the
// same tables.  A button in the header changes the language, and changes it back.
function speak({ data, $, element }) {
  const { exact, templates } = data.words;
  const compiled = templates.map(([part, text, said]) => [part, new RegExp(`^(?:${text})$`, "s"), said]);
  const folded = new Map(Object.entries(exact).filter(([text]) => text.includes(" ")).map(([text, said]) => [text.toLowerCase(), said]));
  const SEPARATORS = [["\n\n", "\n\n"], ["\n", "\n"], [" · ", " · "], [". ", "。"], ["; ", "；"], [": ", "："]];
  const KEPT = "bdi:not(.told), code, pre, script, style, span.key, .tick, .number, .language"; // names, figures
  const SAYING = ["aria-label", "title", "placeholder", "data-label"];
  const INLINE = /^(a|bdi|button|code|em|select|span|strong|svg)$/;
  const HELD = 0xe000; // stands for an element in a sentence: the first of Unicode's private letters

  // ---- one text -------------------------------------------------------------------------------
  const seen = new Map();
  function translated(text) {
    if (!seen.has(text)) seen.set(text, looked(text));
    return seen.get(text);
  }
  function looked(text) {
    const body = text.trim();
    if (body !== text) return body ? text.replace(body, () => translated(body)) : text;
    return entry(text) ?? inParts(text);
  }
  function entry(text) { // a sentence itself, or the template that it was made by
    const known = (Object.hasOwn(exact, text) && exact[text]) || folded.get(text.toLowerCase());
    if (known) return known;
    for (const [part, template, said] of compiled) {
      const fields = text.includes(part) && template.exec(text)?.groups;
      if (fields) return said.replace(/\{(\w+)\}/g, (_, name) => (name === name.toUpperCase() ? translated(fields[name]) : fields[name]));
    }
    return null;
  }
  function inParts(text) {
    for (const [separator, between] of SEPARATORS) {
      const at = text.indexOf(separator);
      if (at < 0) continue;
      const parts = [text.slice(0, at), text.slice(at + separator.length)];
      const said = parts.map(translated);
      if (said.some((one, n) => one !== parts[n])) return said.join(between);
    }
    const said = text.endsWith(".") ? translated(text.slice(0, -1)) : text;
    return text.endsWith(".") && said !== text.slice(0, -1) ? said + "。" : text;
  }

  // ---- where texts stand ----------------------------------------------------------------------
  let back = []; // what makes it English again
  function put(node, text) {
    const before = node.data;
    if (text === before) return;
    node.data = text;
    back.push(() => { node.data = before; });
  }
  // A sentence with elements in it, which may stand in another order: what is said, or nothing.
  function whole(one) {
    const nodes = [...one.childNodes].filter((node) => node.nodeType === 1 || (node.nodeType === 3 && node.data.trim()));
    const inner = nodes.filter((node) => node.nodeType === 1);
    if (!inner.length || inner.length === nodes.length || !inner.every((node) => INLINE.test(node.localName))) return false;
    const text = [...one.childNodes].map((node) => (node.nodeType === 1 ? String.fromCharCode(HELD + inner.indexOf(node)) : node.data)).join("").replace(/\s+/g, " ").trim();
    const said = entry(text);
    if (!said) return false;
    const before = [...one.childNodes];
    one.replaceChildren(...said.split(/([\ue000-\uf8ff])/).filter(Boolean)
      .map((part) => inner[part.charCodeAt(0) - HELD] ?? part));
    back.push(() => one.replaceChildren(...before));
    return true;
  }
  function element_(one) {
    if (one.matches("bdi") && exact[one.textContent] && one.textContent.includes(" ")) one.classList.add("told"); // no name
    for (const name of SAYING) {
      const text = one.getAttribute(name);
      const said = text && translated(text);
      if (said === text) continue;
      one.setAttribute(name, said);
      back.push(() => one.setAttribute(name, text));
    }
    if (one.matches(KEPT)) return;
    const done = whole(one);
    for (const node of [...one.childNodes]) {
      if (node.nodeType === 1) element_(node);
      else if (node.nodeType === 3 && !done && node.data.trim()) {
        const text = node.data.replace(/\s+/g, " ");
        const said = one.matches("bdi") && !text.trim().includes(" ") && one.closest(".key") ? text : translated(text);
        if (said !== text) put(node, said);
      }
    }
  }

  // ---- the language ---------------------------------------------------------------------------
  const watching = new MutationObserver((changes) => {
    const fresh = new Set(changes.flatMap((change) => (change.type === "attributes" ? [change.target] : [...change.addedNodes].map((node) => (node.nodeType === 1 ? node : change.target)))));
    for (const one of fresh) if (one.isConnected && !one.parentElement.closest(KEPT)) element_(one);
    watching.takeRecords();
  });
  const button = element("button", { type: "button" });
  $("main").before(element("p", { class: "language" }, button));
  document.querySelector("header").prepend(button.parentElement);
  function say(chinese) {
    const root = document.documentElement, title = document.title;
    watching.disconnect();
    if (chinese) {
      document.title = translated(title);
      back.push(() => { document.title = title; });
      element_(document.body);
      watching.observe(document.body, { childList: true, subtree: true, attributes: true, attributeFilter: ["title"] });
    } else {
      for (const one of back.reverse()) one();
      back = [];
    }
    root.lang = chinese ? "zh-CN" : "en";
    [button.textContent, button.lang] = chinese ? ["English", "en"] : ["中文", "zh-CN"];
  }
  button.addEventListener("click", () => say(document.documentElement.lang === "en"));
  say(data.language === "zh");
}
