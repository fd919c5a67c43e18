"use strict";
// What the table of a plan's page and the tables of forms share: badges, values with their changes,
// titles that sort, and pages.

const badgeOf = (sign, title) => make("span", "ps-badge", {}, quiet("ps-sign", sign), title);
const empty = () => make("span", "ps-empty", {}, "(empty)");
const list = (items) => make("ul", "ps-items", {}, ...items);

/** A field: its name, and one value, its change, or the items that come and go; then a note. */
const fieldOf = (name, values, note = null) => make("div", "", {},
  make("dt", "", {}, name), make("dd", "", {}, ...saidOf(values), note));

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

/** Turn the titles with `data-sort` into buttons, which sort once upwards, once downwards, then as
 * the rows are given. `now` returns the order; the result shows it. */
const sortHeads = (heads, now, change) => {
  const sortable = heads.filter((head) => head.dataset.sort);
  for (const head of sortable) {
    const { sort } = head.dataset;
    const button = make("button", "", { type: "button", "data-at": `sort ${sort}` }, head.textContent);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const isSorted = now().sort === sort;
      if (isSorted && now().down) change({ sort: "", down: false });
      else change({ sort, down: isSorted });
    });
  }
  return () => {
    for (const head of sortable) {
      if (head.dataset.sort !== now().sort) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", now().down ? "descending" : "ascending");
    }
  };
};

/** Turn pages with the controls in `bars`. `now` returns the page, from 1, and how many there are;
 * the result shows both. */
const turnPages = (bars, now, turn) => {
  const all = (query) => bars.flatMap((bar) => [...bar.querySelectorAll(query)]);
  const go = (to) => {
    const page = Math.min(Math.max(1, to), now().pages);
    if (page !== now().page) turn(page);
  };
  const steps = {
    first: () => 1, previous: () => now().page - 1, next: () => now().page + 1, last: () => now().pages,
  };
  for (const button of all("[data-step]")) {
    button.addEventListener("click", () => go(steps[button.dataset.step]()));
  }
  for (const box of all(".ps-page-number")) {
    box.addEventListener("change", () => {
      go(Math.trunc(box.valueAsNumber) || 1);
      box.value = now().page;
    });
  }
  return () => {
    const { page, pages } = now();
    for (const button of all("[data-step]")) {
      const isBack = ["first", "previous"].includes(button.dataset.step);
      button.setAttribute("aria-disabled", String(isBack ? page === 1 : page === pages));
    }
    for (const box of all(".ps-page-number")) {
      if (box !== document.activeElement) box.value = page;
      box.max = pages;
    }
    for (const text of all(".ps-page-count")) text.textContent = `of ${count(pages)}`;
  };
};

/** Which of the rows are shown: `here` rows after the first `start`, of `found`, of `total`. */
const rangeText = (start, here, found, total) => {
  const some = found === total ? "" : `, filtered from ${count(total)}`;
  return found === 0 ? `No row fits; there are ${count(total)} in all.`
    : `Showing ${count(start + 1)}\u2013${count(start + here)} of ${count(found)}${some}`;
};

/** Call `change` with the text of a search field, a moment after the last key. */
const searchWith = (field, change) => {
  let waiting = 0;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => change(field.value.trim()), 150);
  });
};

/** Make a function that lets what was searched for stand out, without a change to the elements. */
const highlighter = () => {
  let ranges = [];
  return (body, sought) => {
    if (!window.CSS || !CSS.highlights) return;
    const found = CSS.highlights.get("found") ?? new Highlight();
    for (const range of ranges) found.delete(range);
    ranges = [];
    const words = sought.toLowerCase().split(/\s+/).filter(Boolean);
    const texts = document.createTreeWalker(body, NodeFilter.SHOW_TEXT);
    while (words.length && texts.nextNode()) {
      const node = texts.currentNode;
      const text = node.data.toLowerCase();
      // A few characters change their length with their case; their places would be wrong.
      if (text.length !== node.data.length || node.parentElement.closest(".ps-hidden")) continue;
      for (const word of words) {
        for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
          const range = document.createRange();
          range.setStart(node, at);
          range.setEnd(node, at + word.length);
          ranges.push(range);
        }
      }
    }
    for (const range of ranges) found.add(range);
    CSS.highlights.set("found", found);
  };
};
