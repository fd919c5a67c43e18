"use strict";
// The rows of a page, with filters, order, search and pages.
(() => {
  const one = (id) => document.getElementById(id);
  const all = (query) => [...document.querySelectorAll(query)];
  const { kinds, units, rows } = JSON.parse(one("data").textContent);
  const names = kinds.map(([name]) => name);

  // ---- rows, as petsync/report/html.py writes them; document.py calls each a record

  const KIND = 0, ID = 1, NAME = 2, WHERE = 3, FIELDS = 4, SAID = 5, CURE = 6, WINNER = 7;
  const CHANGED = 3, CLASHES = 4;

  // A part between backticks is a command or a name.
  const prose = (text) => text.split(/`([^`]+)`/).map((part, n) =>
    n % 2 ? make("code", "", {}, part) : part).filter((part) => part !== "");

  const rowOf = (row) => {
    const [, symbol, title, mark] = kinds[row[KIND]];
    const cell = (kind, ...inner) => make("td", kind, { role: "cell" }, ...inner);
    return make("tr", `ps-${mark}`, { role: "row" },
      cell("ps-kind", badgeOf(symbol, title, mark)),
      cell("ps-id", bdi(row[ID])),
      row[NAME] ? make("th", "ps-name", { scope: "row", role: "rowheader" }, bdi(row[NAME]))
        : cell("ps-name", bdi("")),
      cell("ps-what", ...what(row)),
      cell("ps-where", bdi(row[WHERE])));
  };

  const what = (row) => {
    const clashes = row[FIELDS].filter((field) => field.length === CLASHES);
    const fields = row[FIELDS].filter((field) => field.length !== CLASHES);
    const parts = [];
    if (row[SAID]) parts.push(make("p", "", {}, ...prose(row[SAID])));
    if (clashes.length) parts.push(clashTable(clashes, row[WINNER]));
    if (row[CURE]) parts.push(make("p", "ps-cure", {}, ...prose(row[CURE])));
    if (fields.length) {
      const shown = fields.map(([unit, ...values]) => fieldOf(units[unit], values));
      parts.push(make("dl", "ps-fields", {}, ...shown));
    }
    return parts;
  };

  const SIDES = ["Before", "Sheet", "Store"];
  const WINS = { store: "stays", sheet: "is sent" };
  const clashTable = (clashes, winner) => {
    const wins = SIDES.map((side) => side.toLowerCase() === winner);
    const heads = SIDES.map((side, n) => make("th", "", { scope: "col" }, side,
      ...(wins[n] ? [" ", make("span", "ps-tag", {}, WINS[winner])] : [])));
    const body = clashes.map(([unit, ...values]) => make("tr", "", {},
      make("th", "", { scope: "row" }, units[unit]),
      ...values.map((value, n) =>
        make("td", wins[n] ? "ps-wins" : "", {}, ...(value.length ? saidOf([value]) : [empty()])))));
    return make("table", "ps-clash", {},
      make("thead", "", {}, make("tr", "", {}, make("th", "", { scope: "col" }, "Field"), ...heads)),
      make("tbody", "", {}, ...body));
  };

  // ---- which rows, in which order

  const state = { kinds: new Set(), field: "", text: "", sort: "", down: false, page: 1, size: 50 };

  // As in plan.select, a field is changed if it has a value before and a value after. Clashes and the
  // values of a new pet are not changes.
  const masks = Uint8Array.from(rows, (row) => row[FIELDS].reduce(
    (mask, field) => field.length === CHANGED ? mask | 1 << field[0] : mask, 0));

  const folded = (text) => (/^[\x00-\x7f]*$/.test(text)
    ? text : text.normalize("NFKD").replace(/\p{M}+/gu, "")).toLowerCase();
  let haystacks = null;
  const searched = () => {
    haystacks = haystacks || rows.map((row) => folded(row.slice(1).flat(3).join("\n")));
    return haystacks;
  };

  let found = { text: "", hits: null };
  const hits = () => {
    if (found.text !== state.text) {
      const words = folded(state.text).split(/\s+/).filter(Boolean);
      found = { text: state.text, hits: null };
      if (words.length) {
        found.hits = Uint8Array.from(searched(), (hay) => words.every((word) => hay.includes(word)));
      }
    }
    return found.hits;
  };

  const collator = new Intl.Collator("en", { numeric: true });
  const rowNumber = (row) => {
    const where = row[WHERE];
    const digits = /\d+/.exec(where.slice(where.lastIndexOf("!") + 1));
    return digits ? Number(digits[0]) : Infinity;
  };
  const idKey = (row) => /^-?\d+$/.test(row[ID]) ? BigInt(row[ID]) : null;
  const byKey = (keyOf) => {
    const keys = rows.map(keyOf);
    return (a, b) => {
      const [one, other] = [keys[a], keys[b]];
      if (one === other) return a - b;
      if (one === null || other === null) return one === null ? 1 : -1;
      return one < other ? -1 : 1;
    };
  };
  const comparisons = {
    kind: () => (a, b) => a - b,
    id: () => byKey(idKey),
    name: () => (a, b) => collator.compare(rows[a][NAME], rows[b][NAME]) || a - b,
    where: () => byKey(rowNumber),
  };
  const orders = new Map();
  const ordered = (sort) => {
    if (!orders.has(sort)) {
      const order = Uint32Array.from(rows.keys());
      orders.set(sort, sort ? order.sort(comparisons[sort]()) : order);
    }
    return orders.get(sort);
  };

  const filtered = () => {
    const order = ordered(state.sort);
    const wanted = names.map((name) => state.kinds.size === 0 || state.kinds.has(name));
    const field = state.field ? 1 << units.indexOf(state.field) : 0;
    const text = hits();
    const shown = [];
    const perKind = names.map(() => 0);
    const perUnit = units.map(() => 0);
    for (let n = 0; n < order.length; n += 1) {
      const at = state.down ? order[order.length - 1 - n] : order[n];
      if (text && !text[at]) continue;
      const kind = rows[at][KIND];
      const fits = !field || (masks[at] & field) !== 0;
      if (fits) perKind[kind] += 1;
      if (!wanted[kind]) continue;
      for (let bits = masks[at], unit = 0; bits; bits >>= 1, unit += 1) perUnit[unit] += bits & 1;
      if (fits) shown.push(at);
    }
    return { shown, perKind, perUnit };
  };

  // ---- the page

  const body = document.querySelector("#table > tbody");
  const boxes = all("input[name=kind]");
  let shown = [];

  const pages = () => Math.max(1, Math.ceil(shown.length / state.size));

  const show = () => {
    const result = filtered();
    shown = result.shown;
    state.page = Math.min(Math.max(1, state.page), pages());
    boxes.forEach((box, n) => {
      box.checked = state.kinds.has(box.value);
      const chip = box.parentElement;
      chip.querySelector(".ps-count").textContent = count(result.perKind[n]);
      chip.classList.toggle("ps-none", result.perKind[n] === 0);
    });
    [...one("field").options].forEach((option, n) => {
      if (n) option.textContent = `${units[n - 1]} (${count(result.perUnit[n - 1])})`;
    });
    one("field").value = state.field;
    if (one("text").value.trim() !== state.text) one("text").value = state.text;
    one("reset").hidden = !(state.kinds.size || state.field || state.text);
    showOrder();
    showPage();
  };

  const showPage = () => {
    const start = (state.page - 1) * state.size;
    const stop = Math.min(start + state.size, shown.length);
    body.replaceChildren(...shown.slice(start, stop).map((at) => rowOf(rows[at])));
    one("table").hidden = shown.length === 0;
    one("status").textContent = rangeText(start, stop - start, shown.length, rows.length);
    showPages();
    for (const select of all(".ps-size")) select.value = state.size;
    highlight(body, state.text);
    remember();
  };

  // The URL records what is shown, so that "back" and a reload lead to the same rows.
  const remember = () => {
    const said = new URLSearchParams();
    if (state.kinds.size) said.set("kind", [...state.kinds].join(","));
    for (const key of ["field", "text", "sort"]) if (state[key]) said.set(key, state[key]);
    if (state.sort && state.down) said.set("down", "1");
    if (state.page > 1) said.set("page", state.page);
    if (state.size !== 50) said.set("size", state.size);
    const hash = said.toString().replaceAll("%2C", ",");
    if (hash === location.hash.slice(1)) return;
    try {
      history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    } catch (error) {
      // In a frame of another page, changing the URL may be forbidden.
    }
  };

  const recall = () => {
    const said = new URLSearchParams(location.hash.slice(1));
    const known = (value, values) => values.includes(value) ? value : "";
    const sizes = [...one("size-above").options].map((option) => Number(option.value));
    const size = Number(said.get("size"));
    state.kinds = new Set((said.get("kind") || "").split(",").filter((kind) => names.includes(kind)));
    state.field = known(said.get("field"), units);
    state.text = said.get("text") || "";
    state.sort = known(said.get("sort"), Object.keys(comparisons));
    state.down = said.has("down");
    state.page = Number.parseInt(said.get("page"), 10) || 1;
    state.size = sizes.includes(size) ? size : 50;
  };

  const change = (changes) => {
    Object.assign(state, { page: 1 }, changes);
    show();
  };

  const turn = (page) => {
    state.page = page;
    showPage();
    const top = one("status").closest(".ps-bar");
    if (top.getBoundingClientRect().top < 0) top.scrollIntoView();
  };

  const highlight = highlighter();
  let showOrder = () => {};
  const showPages = turnPages(all(".ps-bar"), () => ({ page: state.page, pages: pages() }), turn);

  // Print the rows that match the filters (at most PRINTED), not only the visible page.
  const PRINTED = 2000;
  const print = () => {
    const printed = shown.slice(0, PRINTED);
    body.replaceChildren(...printed.map((at) => rowOf(rows[at])));
    const more = shown.length - printed.length;
    const some = shown.length === rows.length ? "" : `, filtered from ${count(rows.length)}`;
    const rest = more ? `; ${count(more)} more are left out of this print` : "";
    if (shown.length) {
      one("status").textContent = `Showing ${count(printed.length)} of ${count(shown.length)}${some}${rest}`;
    }
  };

  const listen = () => {
    addEventListener("beforeprint", print);
    addEventListener("afterprint", showPage);
    one("tools").addEventListener("submit", (event) => event.preventDefault());
    for (const box of boxes) {
      box.addEventListener("change", () => {
        change({ kinds: new Set(boxes.filter((each) => each.checked).map((each) => each.value)) });
      });
    }
    one("field").addEventListener("change", (event) => change({ field: event.target.value }));
    searchWith(one("text"), (text) => change({ text }));
    one("reset").addEventListener("click", () => {
      change({ kinds: new Set(), field: "", text: "" });
      one("text").focus();
    });
    showOrder = sortHeads(all("#table > thead th"), () => state, change);
    showOrder();
    for (const select of all(".ps-size")) {
      select.addEventListener("change", () => change({ size: Number(select.value) }));
    }
    addEventListener("hashchange", () => {
      if (location.hash === "#rows") return;
      recall();
      show();
      one("rows").scrollIntoView();
      one("rows").focus({ preventScroll: true });
    });
  };

  // In a browser that is too old for this script, the first rows stay unchanged, without tools.
  recall();
  show();
  listen();
  one("tools").hidden = false;
  for (const bar of all(".ps-bar")) bar.hidden = false;
})();
