"use strict";
// The rows of a page, as petsync/report/html.py writes them; document.py calls each a record.
const KIND = 0, ID = 1, NAME = 2, WHERE = 3, FIELDS = 4, SAID = 5, CURE = 6, WINNER = 7;
const CHANGED = 3, CLASHES = 4;

const rowMaker = (kinds, units) => {
  // What stands between backticks is to be typed.
  const prose = (text) => text.split(/`([^`]+)`/).map((part, n) =>
    n % 2 ? make("code", "", {}, part) : part).filter((part) => part !== "");

  const rowOf = (row) => {
    const [, symbol, title, mark] = kinds[row[KIND]];
    const cell = (kind, ...inner) => make("td", kind, { role: "cell" }, ...inner);
    return make("tr", `ps-${mark}`, { role: "row" },
      cell("ps-kind", badgeOf(symbol, title)),
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
    if (fields.length) {
      const shown = fields.map(([unit, ...values]) => fieldOf(units[unit], values));
      parts.push(make("dl", "ps-fields", {}, ...shown));
    }
    return parts;
  };

  const SIDES = ["As exported", "Sheet", "Store"];
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

  return rowOf;
};
