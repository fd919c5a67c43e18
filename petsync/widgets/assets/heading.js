// The heading of a form, which also gives the form around it its name.
export default {
  render({ model, el }) {
    const id = freshId();
    const level = Math.min(Math.max(model.get("level"), 2), 6);
    const heading = make(`h${level}`, { id, tabindex: "-1" });
    el.classList.add("petsync-part", "ps-heading");
    el.append(heading);
    follow(model, ["text"], () => heading.replaceChildren(visible(model.get("text"))));
    model.on("msg:custom", (message) => {
      if (message.focus) heading.focus();
    });
    // It is put into the page after it was drawn.
    const named = new ResizeObserver(() => {
      const form = el.closest(".petsync-form");
      if (form === null) return;
      named.disconnect();
      form.setAttribute("role", "region");
      // A key that is pressed in here is not meant for the notebook.
      form.setAttribute("data-lm-suppress-shortcuts", "true");
      form.setAttribute("aria-labelledby", id);
    });
    named.observe(el);
    return () => named.disconnect();
  },
};
