"use strict";
// A plan's rows, as petsync/report/plan.py writes them. Text from outside only ever becomes a
// text node. A row is what petsync/report/plan.py calls a record.
const KIND = 0, ID = 1, NAME = 2, WHERE = 3, FIELDS = 4, SAID = 5, CURE = 6, WINNER = 7;
const CLASHES = 4;

const count = (n) => n.toLocaleString("en");

const make = (tag, kind, attributes, ...children) => {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

const rowMaker = (kinds, units) => {
  const quiet = (kind, text) => make("span", kind, { "aria-hidden": "true" }, text);
  const hidden = (text) => make("span", "ps-hidden", {}, text);
  const bdi = (text) => make("bdi", "", {}, text);
  const empty = () => make("span", "ps-empty", {}, "(empty)");
  const list = (items) => make("ul", "ps-items", {}, ...items);

  // What stands between backticks is to be typed.
  const prose = (text) => text.split(/`([^`]+)`/).map((part, n) =>
    n % 2 ? make("code", "", {}, part) : part).filter((part) => part !== "");

  const rowOf = (row) => {
    const [kind, symbol, title] = kinds[row[KIND]];
    const badge = make("span", "ps-badge", {}, quiet("ps-sign", symbol), title);
    const cell = (kind, ...inner) => make("td", kind, { role: "cell" }, ...inner);
    return make("tr", `ps-${kind}`, { role: "row" },
      cell("ps-kind", badge),
      cell("ps-id", bdi(row[ID])),
      row[NAME] ? make("th", "ps-name", { scope: "row", role: "rowheader" }, bdi(row[NAME]))
        : cell("ps-name"),
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
    if (fields.length) parts.push(make("dl", "ps-fields", {}, ...fields.map(fieldOf)));
    return parts;
  };

  const fieldOf = ([unit, ...values]) => make("div", "", {},
    make("dt", "", {}, units[unit]), make("dd", "", {}, ...saidOf(values)));

  const saidOf = (values) => {
    if (values.length === 1) {
      const [value] = values;
      return [typeof value === "string" ? bdi(value) : list(itemsOf("span", "", "", value))];
    }
    const [before, after] = values;
    if (typeof before === "string") return changeOf(before, after);
    const come = itemsOf("ins", "+", "added", before);
    return [list([...come, ...itemsOf("del", "-", "removed", after)])];
  };

  const itemsOf = (tag, sign, word, items) => items.map((item) => {
    if (typeof item === "number") {
      return make("li", "", {}, `and ${count(item)} more ${word}`.trimEnd());
    }
    const signs = sign ? [quiet("ps-sign", sign), hidden(`${word} `)] : [];
    return make("li", "", {}, make(tag, "ps-item", {}, ...signs, bdi(item)));
  });

  const changeOf = (before, after) => {
    const [old, come] = marked(before, after);
    return [
      make("span", "ps-old", {}, hidden("from "), valueOf("del", old)),
      quiet("", " \u2192 "),
      make("span", "ps-new", {}, hidden("to "), valueOf("ins", come)),
    ];
  };

  const valueOf = (tag, pieces) => pieces.length === 0 ? empty() : make("bdi", "", {},
    ...pieces.map(([text, isMarked]) => isMarked ? make(tag, "", {}, text) : text));

  const SIDES = ["As exported", "Sheet", "Store"];
  const WINS = { store: "stays", sheet: "is sent" };
  const clashTable = (clashes, winner) => {
    const wins = SIDES.map((side) => side.toLowerCase() === winner);
    const heads = SIDES.map((side, n) => make("th", "", { scope: "col" }, side,
      ...(wins[n] ? [" ", make("span", "ps-tag", {}, WINS[winner])] : [])));
    const body = clashes.map(([unit, ...values]) => make("tr", "", {},
      make("th", "", { scope: "row" }, units[unit]),
      ...values.map((value, n) =>
        make("td", wins[n] ? "ps-wins" : "", {}, value ? bdi(value) : empty()))));
    return make("table", "ps-clash", {},
      make("thead", "", {}, make("tr", "", {}, make("th", "", { scope: "col" }, "Field"), ...heads)),
      make("tbody", "", {}, ...body));
  };

  return rowOf;
};
