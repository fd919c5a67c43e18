// A field for files. It sends them in pieces, at most WINDOW bytes ahead of the kernel.
const PIECE = 512 * 1024;
const WINDOW = 4 * PIECE;
const BUSY_AFTER_MS = 8000;

const size = (bytes) => {
  const units = ["bytes", "kB", "MB", "GB"];
  let at = 0;
  while (bytes >= 1000 && at < units.length - 1) {
    bytes /= 1000;
    at += 1;
  }
  return `${at ? bytes.toFixed(bytes < 10 ? 1 : 0) : bytes} ${units[at]}`;
};

const isWanted = (accept, { name, type }) => {
  const kinds = accept.split(",").map((each) => each.trim().toLowerCase()).filter(Boolean);
  return kinds.length === 0 || kinds.some((kind) =>
    kind.startsWith(".") ? name.toLowerCase().endsWith(kind)
      : !type || (kind.endsWith("/*") ? type.startsWith(kind.slice(0, -1)) : type === kind));
};

/** The files of one widget, for all its views. */
export default () => {
  const items = new Map();
  const views = new Set();
  let model;
  let queue = Promise.resolve();
  let begun = 0;
  const redraw = soon(() => views.forEach((draw) => draw()));

  const refusal = (file) => {
    const [accept, most] = [model.get("accept"), model.get("max_bytes")];
    if (!isWanted(accept, file)) return `Only these kinds are accepted: ${accept.replaceAll(",", ", ")}.`;
    if (!most || file.size <= most) return "";
    return `It is larger than ${size(most)} (${count(most)} bytes). ${model.get("way_out")}`.trimEnd();
  };

  const fail = (item, why) => {
    Object.assign(item, { over: true, why });
    item.wake();
    redraw();
  };

  const until = async (item, isSo) => {
    while (!item.over && !isSo()) {
      const late = setTimeout(() => {
        item.isWaiting = true;
        redraw();
      }, BUSY_AFTER_MS);
      await new Promise((wake) => {
        item.wake = wake;
      });
      clearTimeout(late);
      item.isWaiting = false;
    }
  };

  const send = async (item) => {
    if (item.over) return;
    const { key, file } = item;
    model.send({ do: "begin", file: key, name: file.name, size: file.size, type: file.type });
    await until(item, () => item.taken >= 0);
    for (let at = 0; at < file.size && !item.over; at += PIECE) {
      const piece = await file.slice(at, at + PIECE).arrayBuffer();
      await until(item, () => at - item.taken < WINDOW);
      if (!item.over) model.send({ do: "piece", file: key, at }, undefined, [piece]);
    }
    if (!item.over) model.send({ do: "end", file: key });
    await until(item, () => false);
  };

  const take = (files) => {
    const several = model.get("multiple");
    for (const file of several ? files : files.slice(0, 1)) {
      begun += 1;
      const key = `${Date.now().toString(36)}-${begun}-${Math.random().toString(36).slice(2, 8)}`;
      const item = { key, file, taken: -1, over: false, why: "", isWaiting: false, wake() {} };
      items.set(key, item);
      const why = refusal(file);
      if (why) fail(item, why);
      else
        queue = queue.then(() => send(item)).catch(() => {
          model.send({ do: "cancel", file: key });
          items.set(key, item);
          fail(item, "It could not be read: it may have changed, or be a folder.");
        });
    }
    redraw();
  };

  const drop = (key) => {
    const item = items.get(key);
    items.delete(key);
    if (item === undefined || !item.why) model.send({ do: "cancel", file: key });
    if (item) fail(item, "");
    redraw();
  };

  const heard = ({ taken, at, whole, gone, refused, why }) => {
    const item = items.get(taken ?? whole ?? gone ?? refused);
    if (item === undefined) return;
    if (taken !== undefined) item.taken = at;
    if (refused !== undefined) return fail(item, String(why));
    if (whole !== undefined || gone !== undefined) {
      items.delete(item.key);
      item.over = true;
    }
    item.wake();
    redraw();
  };

  return {
    initialize(given) {
      model = given.model;
      model.on("msg:custom", heard);
    },
    render({ model: own, el }) {
      const [labelId, hintId] = [freshId(), freshId()];
      const label = make("span", "ps-label", { id: labelId });
      const hint = make("span", "ps-hint", { id: hintId });
      const input = make("input", "", { type: "file", hidden: true, tabindex: "-1", "aria-hidden": "true" });
      const open = make("button", "", { type: "button", "data-at": "open", "aria-describedby": hintId });
      const words = make("span", "ps-aside", {});
      const zone = make("div", "ps-drop", { role: "group", "aria-labelledby": labelId },
        label, make("div", "", {}, open, input, words), hint);
      const list = make("ul", "", { "aria-label": "Files" });
      const status = make("p", "ps-hidden", { role: "status" });
      el.classList.add("petsync-part", "ps-files");
      el.append(zone, list, status);

      open.addEventListener("click", () => input.click());
      input.addEventListener("change", () => {
        take([...input.files]);
        input.value = "";
      });
      const over = (event) => {
        event.preventDefault();
        event.stopPropagation();
        const isOver = event.type === "dragenter" || event.type === "dragover";
        zone.classList.toggle("ps-over", isOver && !own.get("disabled"));
        if (event.type === "drop" && !own.get("disabled")) take([...event.dataTransfer.files]);
      };
      for (const type of ["dragenter", "dragover", "dragleave", "drop"]) zone.addEventListener(type, over);

      const entry = (key, name, bytes, state, action, extra) => {
        const button = make("button", "", { type: "button", "data-at": `file ${key}` }, action, hidden(` ${short(name)}`));
        button.addEventListener("click", () => drop(key));
        return make("li", "", {}, make("span", "ps-name", {}, make("bdi", "", {}, short(name, 80))),
          make("span", "ps-aside", {}, size(bytes)), extra,
          make("span", state.isBad ? "ps-bad" : "ps-aside", {}, state.text), button);
      };
      const coming = ({ key, file, taken, why, isWaiting }) => {
        if (why) return entry(key, file.name, file.size, { text: `Not accepted. ${why}`, isBad: true }, "Dismiss");
        const bar = make("progress", "", { "aria-label": `Sending ${short(file.name)}`, max: Math.max(file.size, 1) });
        if (taken >= 0) bar.value = taken;
        const text = isWaiting ? "Waiting for the kernel, which is busy" : taken < 0 ? "Waiting" : "Sending";
        return entry(key, file.name, file.size, { text }, "Cancel", bar);
      };
      const draw = () => keepingFocus(el, open, () => {
        const many = own.get("multiple");
        label.textContent = short(own.get("label"));
        hint.textContent = short(own.get("hint"), 500);
        open.textContent = many ? "Choose files…" : "Choose a file…";
        open.disabled = own.get("disabled");
        words.textContent = many ? "or drop them here" : "or drop it here";
        input.accept = own.get("accept");
        input.multiple = many;
        const here = own.get("present").map(({ key, name, size: bytes }) =>
          entry(key, name, bytes, { text: "Received" }, "Remove"));
        list.replaceChildren(...here, ...[...items.values()].map(coming));
        list.hidden = list.children.length === 0;
        announce(here.length);
      });
      const announce = (whole) => {
        const all = [...items.values()];
        const refused = all.filter(({ why }) => why);
        const words = [
          all.length > refused.length ? `Sending ${all.length - refused.length}.` : "",
          whole ? `${whole} received.` : "",
          ...refused.map(({ file, why }) => `${short(file.name)} was not accepted. ${why}`),
        ].filter(Boolean).join(" ");
        if (status.textContent !== words) status.textContent = words;
      };
      views.add(draw);
      follow(own, ["label", "hint", "accept", "multiple", "disabled", "present"], redraw);
      return () => views.delete(draw);
    },
  };
};
