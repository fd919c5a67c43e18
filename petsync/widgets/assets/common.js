// Helpers of all widgets; those of petsync/report/assets/dom.js come first.

const freshId = () => `petsync-${Math.random().toString(36).slice(2, 12)}`;

const NAMES = { "\0": "NUL", "\t": "tab", "\r": "CR", "\x1b": "ESC", "\u00a0": "NBSP" };
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]|(?![ \u3000])\p{Zs}/gu;
const JOINING = /[\u0600-\u{10ffff}]/u;

/** Name control and invisible characters in brackets, as petsync's other output does. */
const visible = (text) =>
  text.replace(UNSEEN, (char, at) => {
    if (char === "\n") return char;
    const joins = char === "\u200c" || char === "\u200d";
    if (joins && at > 0 && JOINING.test(text[at - 1]) && JOINING.test(text[at + 1] ?? "")) return char;
    const code = char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `[${NAMES[char] ?? `U+${code}`}]`;
  });

const LONG = 300;
const LONG_ADVICE = 3000;
const MANY_LINES = 8;

/** Visible text for an attribute or a button, where it cannot be folded. */
const short = (value, most = 120) => {
  const text = visible(String(value ?? "")).replaceAll("\n", " ");
  return text.length > most ? `${text.slice(0, most)}…` : text;
};

/** Text as an element with an isolated direction; folded if it is long. */
const shown = (value, long = LONG) => {
  const text = visible(String(value ?? ""));
  if (text.length <= long && text.split("\n", MANY_LINES + 1).length <= MANY_LINES)
    return make("bdi", "", {}, text);
  const head = make("summary", "", {}, make("bdi", "", {}, short(text, 80)),
    ` (${count(text.length)} characters)`);
  return make("details", "ps-long", {}, head, make("bdi", "", {}, text));
};

/** A message of petsync, which must be read to its end: it is folded only if a value makes it long. */
const advice = (value) => shown(value, LONG_ADVICE);

/** Whether an address leads to the web. */
const isWeb = (address) => {
  try {
    return ["http:", "https:"].includes(new URL(address).protocol);
  } catch {
    return false;
  }
};

/** Make a function that calls `draw` once after all current changes. */
const soon = (draw) => {
  let due = false;
  return () => {
    if (due) return;
    due = true;
    queueMicrotask(() => {
      due = false;
      draw();
    });
  };
};

const follow = (model, names, draw) => {
  for (const name of names) model.on(`change:${name}`, draw);
  draw();
};

/** Draw again and keep the focus: on the element with the same `data-at`, otherwise on `other`. */
const keepingFocus = (root, other, draw) => {
  const focused = root.contains(document.activeElement) ? document.activeElement : null;
  draw();
  if (focused === null || (focused.isConnected && !focused.disabled)) return;
  const at = focused.dataset.at;
  const same = at === undefined ? null : root.querySelector(`[data-at="${CSS.escape(at)}"]`);
  (same && !same.disabled ? same : other).focus({ preventScroll: true });
};
