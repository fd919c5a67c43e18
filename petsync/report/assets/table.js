"use strict";
// Code for the table of a page and for the tables of forms: badges, values with their changes,
// column titles that sort, and pagination.

// The differences between two texts, as in petsync/report/textdiff.py: the pieces of each text, and
// whether they are marked.
const marked = (() => {
  const MOST_STEPS = 40000;
  const segmenter = new Intl.Segmenter("en", { granularity: "grapheme" });
  const signsOf = (text) => Array.from(segmenter.segment(text), (part) => part.segment);
  const isWord = (sign) => /^[\p{L}\p{N}_]/u.test(sign);

  const wordsOf = (text) => {
    const words = [];
    let inWord = false;
    for (const sign of signsOf(text)) {
      const goesOn = isWord(sign);
      if (goesOn && inWord) words[words.length - 1] += sign;
      else words.push(sign);
      inWord = goesOn;
    }
    return words;
  };

  const alike = (one, other, most = Math.min(one.length, other.length)) => {
    let n = 0;
    while (n < most && one[n] === other[n]) n += 1;
    return n;
  };
  const ends = (one, other) => {
    const head = alike(one, other);
    const tail = alike(one.slice(head).reverse(), other.slice(head).reverse());
    return [head, tail];
  };

  const common = (old, come) => {
    const best = Array.from({ length: old.length + 1 }, () => new Uint32Array(come.length + 1));
    for (let i = old.length - 1; i >= 0; i -= 1) {
      for (let j = come.length - 1; j >= 0; j -= 1) {
        best[i][j] = old[i] === come[j]
          ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
      }
    }
    const found = [];
    for (let i = 0, j = 0; i < old.length && j < come.length;) {
      if (old[i] === come[j]) found.push([i++, j++]);
      else if (best[i + 1][j] >= best[i][j + 1]) i += 1;
      else j += 1;
    }
    return found;
  };

  const keptOf = (old, come) => {
    const [head, tail] = ends(old, come);
    const [one, other] = [old, come].map((words) => words.slice(head, words.length - tail));
    const kept = Array.from({ length: head }, (_, n) => [n, n]);
    if (one.length * other.length <= MOST_STEPS) {
      for (const [i, j] of common(one, other)) kept.push([head + i, head + j]);
    }
    for (let n = tail; n > 0; n -= 1) kept.push([old.length - n, come.length - n]);
    return kept;
  };

  const inside = (gone, come) => {
    const [old, now] = [signsOf(gone), signsOf(come)];
    let [head, tail] = ends(old, now);
    if ((head + tail) * 2 < Math.max(old.length, now.length)) head = tail = 0;
    return [old, now].map((signs) => [
      [signs.slice(0, head).join(""), false],
      [signs.slice(head, signs.length - tail).join(""), true],
      [signs.slice(signs.length - tail).join(""), false],
    ]);
  };

  const joined = (pieces) => {
    const whole = [];
    for (const [text, isMarked] of pieces) {
      const last = whole[whole.length - 1];
      if (!text) continue;
      if (last && last[1] === isMarked) last[0] += text;
      else whole.push([text, isMarked]);
    }
    return whole;
  };

  return (before, after) => {
    const [old, come] = [wordsOf(before), wordsOf(after)];
    const [left, right] = [[], []];
    let [i, j] = [0, 0];
    const kept = keptOf(old, come);
    // If the texts have only brackets and spaces in common, mark the whole texts: many short marks
    // would be hard to read.
    if (!kept.some(([n]) => isWord(old[n]))) kept.length = 0;
    for (const [n, m] of [...kept, [old.length, come.length]]) {
      const [gone, now] = inside(old.slice(i, n).join(""), come.slice(j, m).join(""));
      left.push(...gone, [old[n] || "", false]);
      right.push(...now, [come[m] || "", false]);
      [i, j] = [n + 1, m + 1];
    }
    return [joined(left), joined(right)];
  };
})();

const badgeOf = (sign, title, mark = "") =>
  make("span", mark ? `ps-badge ps-${mark}` : "ps-badge", {}, quiet("ps-sign", sign), title);
const empty = () => make("span", "ps-empty", {}, "(empty)");
const list = (items) => make("ul", "ps-items", {}, ...items);

/** A field: its name, and one value, its change, or its added and removed items; then a note. */
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
  const listed = (before + after).includes("\n") ? " ps-listed" : "";
  return [
    make("span", `ps-old${listed}`, {}, hidden("from "), valueOf("del", old)),
    quiet("", " \u2192 "),
    make("span", `ps-new${listed}`, {}, hidden("to "), valueOf("ins", come)),
  ];
};

const valueOf = (tag, pieces) => pieces.length === 0 ? empty() : make("bdi", "", {},
  ...pieces.map(([text, isMarked]) => isMarked ? make(tag, "", {}, text) : text));

/** Turn the titles with `data-sort` into buttons, which sort the rows ascending, then descending,
 * then not at all. `now` returns the order; the returned function shows it. */
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

/** Turn pages with the controls in `bars`. `now` returns the number of the page, from 1, and the
 * number of pages; the returned function shows both. */
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

/** Describe which rows are shown: `here` rows after the first `start`, of the `found` rows that match,
 * of `total` rows. */
const rangeText = (start, here, found, total) => {
  const some = found === total ? "" : `, filtered from ${count(total)}`;
  return found === 0 ? `No row matches; there are ${count(total)} in all.`
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

/** Make a function that highlights the searched words, without a change to the elements. */
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
      // A few characters change their length with their case; the positions would be wrong.
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
