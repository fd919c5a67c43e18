// The heading of a form, which also gives the form around it its name.

// A key that is pressed in a form is not meant for the notebook. Jupyter asks the very element that
// has the focus; of a field to write in it expects nothing anyway.
const MINE = "data-lm-suppress-shortcuts";
const mine = ({ target }) => {
  if (!target.matches(":read-write")) target.setAttribute(MINE, "true");
};

// All but the one that saves the notebook. Jupyter listens at the document, this before it does.
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
      const heading = make(`h${level}`, { id, tabindex: "-1" });
      el.classList.add("petsync-part", "ps-heading");
      el.append(heading);
      follow(model, ["text"], () => heading.replaceChildren(visible(model.get("text"))));
      // It may be shown only after it was asked to take the focus.
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
      return () => {
        placed.disconnect();
        window.removeEventListener("keydown", save, true);
      };
    },
  };
};
