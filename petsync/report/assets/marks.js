"use strict";
// What differs in two texts, as petsync/report/textdiff.py finds it: for each text its pieces, and
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
    // Brackets and spaces alone that stay would only scatter the marks.
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
