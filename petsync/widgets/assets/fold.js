// A button that unfolds the widgets below it; the kernel shows or hides them.
export default {
  render({ model, el }) {
    const text = make("span", "", {});
    const button = make("button", "", { type: "button" }, quiet("ps-fold-sign", "\u203a"), text);
    el.classList.add("petsync-part", "ps-fold");
    el.append(button);
    button.addEventListener("click", () => {
      model.set("is_open", !model.get("is_open"));
      model.save_changes();
    });
    follow(model, ["label", "is_open"], () => {
      text.textContent = short(model.get("label"));
      button.setAttribute("aria-expanded", String(model.get("is_open")));
    });
  },
};
