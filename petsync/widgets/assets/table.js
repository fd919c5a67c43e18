// The table of the forms: one page of rows, which the kernel sorts and searches.
const TONES = ["add", "update", "delete", "conflict", "problem", "done", "muted"];
const NAMELESS = ["mark", "image", "choice", "number", "value", "fields"];
const PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,[\w+/=]*$/;
const CLASSES = { mark: "ps-kind", fields: "ps-what", number: "ps-number", image: "ps-image" };

const seen = (value) => Array.isArray(value) ? value.map(seen)
  : typeof value === "string" ? visible(value) : value;

/** The content of a cell, by its column's kind. Other values are shown as text. */
const CELLS = {
  value: (values) => saidOf(seen(values)),
  fields: (fields) => fields.map(({ text, warning, name, values }) =>
    text != null ? make("p", "", {}, advice(text))
      : make("dl", "ps-fields", {}, fieldOf(short(name), seen(values), warning ? warningOf(warning) : null))),
  image: ({ src, alt }) =>
    PICTURE.test(src ?? "") ? [make("img", "", { src, alt: short(alt) })] : [shown(alt)],
  link: ({ href, text }) =>
    isWeb(href)
      ? [make("a", "", { href, target: "_blank", rel: "noopener noreferrer" }, shown(text || href),
          hidden(" (opens in a new tab)"))]
      : [shown(text || href)],
  mark: ({ symbol, text }) => [badgeOf(visible(symbol ?? ""), shown(text))],
};
const warningOf = (warning) =>
  make("div", "ps-warned", {}, badgeOf("!", "Warning"), " ", advice(warning));

const contents = (kind, value) => {
  if (value == null) return [];
  if (typeof value !== "object") return [kind === "advice" ? advice(value) : shown(value)];
  return (CELLS[kind] ?? ((other) => [shown(other)]))(value);
};

export default {
  render({ model, el }) {
    const get = (name) => model.get(name);
    const put = (changes) => {
      for (const [name, value] of Object.entries(changes)) model.set(name, value);
      model.save_changes();
    };
    const id = freshId();
    const title = make("p", "ps-caption", { id });
    const head = make("thead", "", { role: "rowgroup" });
    const body = make("tbody", "", { role: "rowgroup" });
    const region = make("div", "ps-scroll", { role: "group", tabindex: "-1", "aria-labelledby": id },
      make("table", "ps-table", { role: "table", "aria-labelledby": id }, head, body));
    const none = make("p", "ps-none-said", {});
    el.classList.add("petsync-part", "petsync", "ps-page", "ps-grid");

    const field = make("input", "", { type: "search", id: freshId(), autocomplete: "off", spellcheck: "false" });
    const tools = make("div", "ps-search", { role: "search" },
      make("label", "", { for: field.id }, "Search"), " ", field);
    const status = make("p", "", { role: "status" });
    const nav = makePages();
    const bar = make("div", "ps-bar", {}, title, status, tools, nav);
    el.append(bar, region, none);
    const order = () => ({ sort: get("sort"), down: get("down") });
    const pages = () => ({ page: get("page") + 1, pages: Math.max(get("pages"), 1) });
    const showPages = turnPages([bar], pages, (page) => put({ page: page - 1 }));
    searchWith(field, (search) => put({ search, page: 0 }));
    const highlight = highlighter();

    const boxes = () => [...body.querySelectorAll("input[type=checkbox]")];
    const tick = (keys, on) => {
      const others = get("ticked").filter((key) => !keys.includes(key));
      put({ ticked: on ? [...others, ...keys] : others });
    };
    const all = make("input", "", { type: "checkbox", "data-at": "all", "aria-label": "All rows of this page" });
    all.addEventListener("change", () =>
      tick(get("rows").filter((row) => !row.fixed).map((row) => row.key), all.checked));
    const showTicks = () => {
      const ticked = new Set(get("ticked"));
      for (const box of boxes()) box.checked = ticked.has(box.value);
      const free = get("rows").filter((row) => !row.fixed);
      const on = free.filter((row) => ticked.has(row.key)).length;
      all.checked = free.length > 0 && on === free.length;
      all.indeterminate = on > 0 && on < free.length;
      all.disabled = get("disabled") || free.length === 0;
    };

    const box = (row) => {
      const input = make("input", "", {
        type: "checkbox", value: row.key, "data-at": `tick ${row.key}`,
        "aria-label": `Select ${short(row.label)}`, disabled: get("disabled") || row.fixed,
      });
      input.addEventListener("change", () => tick([row.key], input.checked));
      return make("td", "ps-tick", { role: "cell" }, input);
    };
    const choice = (row, column, { options, value, label }) => {
      const select = make("select", "", {
        "data-at": `choice ${column.key} ${row.key}`, disabled: get("disabled"),
        "aria-label": short(label || `${column.title}: ${row.label}`),
      }, ...(options ?? []).map(([option, name]) => make("option", "", { value: option }, short(name))));
      select.dataset.row = row.key;
      select.dataset.column = column.key;
      select.dataset.first = value ?? "";
      select.addEventListener("change", () => {
        const chosen = get("chosen");
        put({ chosen: { ...chosen, [row.key]: { ...chosen[row.key], [column.key]: select.value } } });
      });
      return select;
    };
    const showChoices = () => {
      for (const select of body.querySelectorAll("select")) {
        const { row, column, first } = select.dataset;
        select.value = get("chosen")[row]?.[column] ?? first;
      }
    };
    const button = (row) => {
      const pick = make("button", "", { type: "button", "data-at": `pick ${row.key}`, disabled: get("disabled") },
        visible(get("pick")), hidden(` ${short(row.label)}`));
      pick.addEventListener("click", () => model.send({ picked: row.key }));
      return make("td", "ps-pick", { role: "cell" }, pick);
    };
    const classOf = (column, name) => column === name ? (column.kind === "link" ? "ps-name ps-wide" : "ps-name")
      : CLASSES[column.kind] ?? (["id", "where"].includes(column.key) ? `ps-${column.key}` : "ps-cell");
    const cell = (row, column, name) => {
      const value = row.cells?.[column.key];
      const isName = column === name;
      const given = {
        scope: isName ? "row" : null, role: isName ? "rowheader" : "cell",
        "data-title": value == null || value === "" ? null : short(column.title),
      };
      return make(isName ? "th" : "td", classOf(column, name), given,
        ...(column.kind === "choice" && value?.options
          ? [choice(row, column, value)] : contents(column.kind, value)));
    };
    const line = (row, name) =>
      make("tr", TONES.includes(row.tone) ? `ps-tone-${row.tone}` : "", { role: "row" },
        get("tickable") ? box(row) : null,
        ...get("columns").map((column) => cell(row, column, name)),
        get("pick") ? button(row) : null);

    const titleOf = (column, name) => make("th", classOf(column, name), {
      scope: "col", role: "columnheader", "data-sort": get("total") > 1 && column.sorts ? column.key : null,
    }, short(column.title));
    const titles = (name) => {
      const heads = get("columns").map((column) => titleOf(column, name));
      sortHeads(heads, order, (change) => put({ ...change, page: 0 }))();
      return make("tr", "", { role: "row" },
        get("tickable") ? make("th", "ps-tick", { scope: "col", role: "columnheader" }, all) : null,
        ...heads,
        get("pick") ? make("th", "ps-pick", { scope: "col", role: "columnheader" }, hidden("Action")) : null);
    };

    const showRange = (here) => {
      const { page, pages: most } = pages();
      const found = Math.max(get("total"), here);
      const total = Math.max(get("all"), found);
      const start = page === most ? found - here : (page - 1) * here;
      const words = total ? rangeText(start, here, found, total) : "";
      if (status.textContent !== words) status.textContent = words;
      nav.setAttribute("aria-label", `Pages of ${short(get("caption")) || "the table"}`);
      nav.hidden = most === 1;
      showPages();
    };
    const draw = () => {
      const rows = get("rows");
      const texts = get("columns").filter((column) => !NAMELESS.includes(column.kind));
      const name = texts.find((column) => ["name", "pet"].includes(column.key)) ?? texts[0];
      keepingFocus(el, region, () => {
        title.replaceChildren(short(get("caption"), 300) || hidden("Table"));
        tools.hidden = !get("searchable");
        if (field !== document.activeElement) field.value = get("search");
        head.replaceChildren(titles(name));
        body.replaceChildren(...rows.map((row) => line(row, name)));
        region.hidden = rows.length === 0;
        none.textContent = rows.length ? "" : visible(get("empty"));
        showTicks();
        showChoices();
        showRange(rows.length);
        highlight(body, get("search"));
      });
    };
    const drawSoon = soon(draw);
    model.on("change:ticked", showTicks);
    model.on("change:chosen", showChoices);
    follow(model, ["caption", "empty", "columns", "rows", "page", "pages", "total", "all", "searchable",
      "search", "sort", "down", "tickable", "pick", "disabled"], drawSoon);

    const lead = ({ focus }) => {
      if (typeof focus !== "string" || !el.isConnected) return;
      const at = el.querySelector(`[data-at="${CSS.escape(focus)}"]`);
      (at && !at.disabled ? at : region).focus();
    };
    model.on("msg:custom", lead);

    // A region must be reachable by keyboard if it can be scrolled, and only then.
    const sizes = new ResizeObserver(() => {
      region.tabIndex = region.scrollWidth > region.clientWidth + 1 ? 0 : -1;
    });
    sizes.observe(region);
    sizes.observe(region.firstChild);
    return () => {
      model.off("msg:custom", lead);
      sizes.disconnect();
      highlight(body, "");
    };
  },
};

/** The controls of the pages, which keep the focus while the rows change. */
function makePages() {
  const step = (name, text) => make("button", "", { type: "button", "data-step": name }, text);
  const box = make("input", "ps-page-number", { type: "number", id: freshId(), min: 1, value: 1 });
  return make("nav", "ps-pages", {},
    step("first", "First"), step("previous", "Previous"),
    make("span", "", {}, make("label", "", { for: box.id }, "Page"), " ", box, " ", make("span", "ps-page-count", {})),
    step("next", "Next"), step("last", "Last"));
}
