// One page of a table, in plain HTML: rows with ticks, choices and buttons.
const TONES = ["add", "update", "delete", "conflict", "problem", "done", "muted"];
const NAMELESS = ["mark", "image", "choice", "number"];
const PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,[\w+/=]*$/;

const web = (address) => {
  try {
    return ["http:", "https:"].includes(new URL(address).protocol);
  } catch {
    return false;
  }
};

const side = (tag, word, value) =>
  value == null ? null : make(tag, {}, hidden(word), value === "" ? make("em", {}, "(empty)") : shown(value));

/** The content of a cell, by its column's kind. Other values are shown as text. */
const CELLS = {
  change: ({ before, after }) => [
    side("del", "before: ", before),
    before != null && after != null ? make("span", { "aria-hidden": "true" }, " → ") : null,
    side("ins", "after: ", after),
  ],
  image: ({ src, alt }) =>
    PICTURE.test(src ?? "") ? [make("img", { src, alt: short(alt) })] : [shown(alt)],
  link: ({ href, text }) =>
    web(href)
      ? [make("a", { href, target: "_blank", rel: "noopener noreferrer" }, shown(text || href),
          hidden(" (opens in a new tab)"))]
      : [shown(text || href)],
  mark: ({ symbol, text }) => [
    make("span", { class: "ps-symbol", "aria-hidden": "true" }, visible(symbol ?? "")), shown(text)],
};

const contents = (kind, value) => {
  if (value == null) return [];
  if (typeof value !== "object") return [shown(value)];
  return (CELLS[kind] ?? ((other) => [shown(other)]))(value).filter((child) => child != null);
};

export default {
  render({ model, el }) {
    const get = (name) => model.get(name);
    const put = (name, value) => {
      model.set(name, value);
      model.save_changes();
    };
    const id = freshId();
    const caption = make("caption", { id });
    const head = make("thead");
    const body = make("tbody");
    const region = make("div", { class: "ps-scroll", role: "group", tabindex: "-1", "aria-labelledby": id },
      make("table", {}, caption, head, body));
    const none = make("p", { class: "ps-empty" });
    const pager = makePager(get, put);
    el.classList.add("petsync-part", "ps-table");
    el.append(region, none, pager.node);

    const boxes = () => [...body.querySelectorAll("input[type=checkbox]")];
    const tick = (keys, on) => {
      const others = get("ticked").filter((key) => !keys.includes(key));
      put("ticked", on ? [...others, ...keys] : others);
    };
    const all = make("input", { type: "checkbox", "data-at": "all", "aria-label": "All rows of this page" });
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
      const input = make("input", {
        type: "checkbox", value: row.key, "data-at": `tick ${row.key}`,
        "aria-label": `Select ${short(row.label)}`, disabled: get("disabled") || row.fixed,
      });
      input.addEventListener("change", () => tick([row.key], input.checked));
      return make("td", { class: "ps-tick" }, input);
    };
    const choice = (row, column, { options, value, label }) => {
      const select = make("select", {
        "data-at": `choice ${column.key} ${row.key}`, disabled: get("disabled"),
        "aria-label": short(label || `${column.title}: ${row.label}`),
      }, ...(options ?? []).map(([option, title]) => make("option", { value: option }, short(title))));
      select.dataset.row = row.key;
      select.dataset.column = column.key;
      select.dataset.first = value ?? "";
      select.addEventListener("change", () => {
        const chosen = get("chosen");
        put("chosen", { ...chosen, [row.key]: { ...chosen[row.key], [column.key]: select.value } });
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
      const pick = make("button", { type: "button", "data-at": `pick ${row.key}`, disabled: get("disabled") },
        visible(get("pick")), hidden(` ${short(row.label)}`));
      pick.addEventListener("click", () => model.send({ picked: row.key }));
      return make("td", { class: "ps-pick" }, pick);
    };
    const cell = (row, column, name) => {
      const value = row.cells?.[column.key];
      const given = { class: `ps-${column.kind ?? "text"}`, scope: column === name ? "row" : null };
      const tag = column === name ? "th" : "td";
      return column.kind === "choice" && value?.options
        ? make(tag, given, choice(row, column, value))
        : make(tag, given, ...contents(column.kind, value));
    };
    const line = (row, name) =>
      make("tr", { class: TONES.includes(row.tone) ? `ps-tone-${row.tone}` : null },
        get("tickable") ? box(row) : null,
        ...get("columns").map((column) => cell(row, column, name)),
        get("pick") ? button(row) : null);

    const titles = () =>
      make("tr", {},
        get("tickable") ? make("th", { scope: "col", class: "ps-tick" }, all) : null,
        ...get("columns").map((column) =>
          make("th", { scope: "col", class: `ps-${column.kind ?? "text"}` }, short(column.title))),
        get("pick") ? make("th", { scope: "col" }, hidden("Action")) : null);

    const draw = () => {
      const rows = get("rows");
      const name = get("columns").find((column) => !NAMELESS.includes(column.kind));
      keepingFocus(el, region, () => {
        caption.replaceChildren(short(get("caption"), 300) || hidden("Table"));
        head.replaceChildren(titles());
        body.replaceChildren(...rows.map((row) => line(row, name)));
        none.textContent = rows.length ? "" : visible(get("empty"));
        showTicks();
        showChoices();
        pager.draw(rows.length);
      });
    };
    const drawSoon = soon(draw);
    model.on("change:ticked", showTicks);
    model.on("change:chosen", showChoices);
    follow(model, ["caption", "empty", "columns", "rows", "page", "pages", "total", "tickable", "pick", "disabled"],
      drawSoon);

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
    };
  },
};

/** The pager keeps its elements, so that the focus stays on a button that is pressed again. */
function makePager(get, put) {
  const go = (page) => put("page", Math.min(Math.max(page, 0), get("pages") - 1));
  const turn = (title, to) => {
    const button = make("button", { type: "button" }, title);
    button.addEventListener("click", () => button.getAttribute("aria-disabled") || go(to()));
    return button;
  };
  const back = [turn("First", () => 0), turn("Previous", () => get("page") - 1)];
  const on = [turn("Next", () => get("page") + 1), turn("Last", () => get("pages") - 1)];
  const field = make("input", { type: "number", min: 1, inputmode: "numeric" });
  const wanted = () => {
    const page = Math.round(Number(field.value));
    if (Number.isFinite(page) && field.value !== "") go(page - 1);
    field.value = get("page") + 1;
  };
  field.addEventListener("change", wanted);
  const of = make("span", {});
  const controls = make("nav", { class: "ps-pager" }, ...back,
    make("label", {}, "Page ", field), of, ...on);
  const count = make("p", { class: "ps-count", role: "status" });
  const bar = make("div", { class: "ps-bar" }, count, controls);
  const draw = (here) => {
    const [page, pages] = [get("page"), Math.max(get("pages"), 1)];
    const total = Math.max(get("total"), here);
    const first = page >= pages - 1 ? total - here + 1 : page * here + 1;
    const words = pages === 1 ? (total ? `${number(total)} ${total === 1 ? "row" : "rows"}` : "")
      : `Rows ${number(first)} to ${number(first + here - 1)} of ${number(total)}`;
    if (count.textContent !== words) count.textContent = words;
    controls.setAttribute("aria-label", `Pages of ${short(get("caption")) || "the table"}`);
    controls.hidden = pages === 1;
    field.max = pages;
    if (field !== document.activeElement) field.value = page + 1;
    of.textContent = `of ${number(pages)}`;
    for (const button of back) mark(button, page <= 0);
    for (const button of on) mark(button, page >= pages - 1);
  };
  return { node: bar, draw };
}

const mark = (button, isOff) =>
  isOff ? button.setAttribute("aria-disabled", "true") : button.removeAttribute("aria-disabled");
