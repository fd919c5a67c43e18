// The navigation between the steps or sections of a page.
export default {
  render({ model, el }) {
    const list = make("ol", "", {});
    const nav = make("nav", "", { "aria-label": model.get("label") || "Steps" }, list);
    el.classList.add("petsync-part", "ps-steps");
    el.append(nav);
    const go = (key) => {
      model.set("current", key);
      model.save_changes();
    };
    const item = ({ key, title, done, disabled, aside }, at) => {
      const button = make("button", "", {
        type: "button", "data-at": key, "aria-disabled": disabled ? "true" : null,
        "aria-current": key === model.get("current") ? "step" : null,
      },
        make("span", "ps-symbol", { "aria-hidden": "true" }, done ? "✓" : aside ? "•" : String(at + 1)),
        make("span", "", {}, short(title)), done ? hidden(" (done)") : null);
      button.addEventListener("click", () => disabled || go(key));
      return make("li", aside ? "ps-beside" : null, {}, button);
    };
    follow(model, ["steps", "current"], soon(() => keepingFocus(el, nav, () => {
      list.replaceChildren(...model.get("steps").map(item));
    })));
  },
};
