// The heading of a form, which also names the form for screen readers.

// Jupyter's shortcuts are off while the focus is in a form. Jupyter checks the focused element; in a
// text field, its shortcuts are off anyway.
const MINE = "data-lm-suppress-shortcuts";
const mine = ({ target }) => {
  if (!target.matches(":read-write")) target.setAttribute(MINE, "true");
};

// The shortcut that saves the notebook stays on. Jupyter listens on the document; this handler runs
// first.
const saving = (form) => (event) => {
  const { target, key } = event;
  const isSave = (event.ctrlKey || event.metaKey) && !event.altKey && key.toLowerCase() === "s";
  if (!isSave || !form()?.contains(target) || !target.hasAttribute(MINE)) return;
  target.removeAttribute(MINE);
  setTimeout(() => mine({ target }));
};

export default () => {
  let wanted = false;
  let focus = () => {};
  return {
    initialize({ model }) {
      model.on("msg:custom", (message) => {
        wanted = Boolean(message.focus);
        focus();
      });
    },
    render({ model, el }) {
      const id = freshId();
      const level = Math.min(Math.max(model.get("level"), 1), 6);
      const heading = make(`h${level}`, "", { id, tabindex: "-1" });
      el.classList.add("petsync-part", "ps-heading");
      el.append(heading);
      follow(model, ["text"], () => heading.replaceChildren(visible(model.get("text"))));
      // The heading may become visible only after the request for the focus.
      focus = () => {
        if (!wanted || !el.isConnected || el.offsetParent === null) return;
        wanted = false;
        heading.focus();
      };
      const placed = new ResizeObserver(() => {
        const form = el.closest(".petsync-form");
        if (form === null) return;
        form.setAttribute("role", "region");
        form.setAttribute("aria-labelledby", id);
        form.addEventListener("focusin", mine);
        focus();
      });
      placed.observe(el);
      const save = saving(() => el.closest(".petsync-form"));
      window.addEventListener("keydown", save, true);
      model.send({ shown: true });
      return () => {
        placed.disconnect();
        window.removeEventListener("keydown", save, true);
      };
    },
  };
};
