// A message for screen readers. Both elements exist from the start, because a screen reader
// announces only changes in elements that it knows.
const SYMBOLS = { "": "i", done: "✓", problem: "!" };

export default {
  render({ model, el }) {
    const polite = make("div", "", { role: "status" });
    const urgent = make("div", "", { role: "alert" });
    el.classList.add("petsync-part", "ps-notice");
    el.append(polite, urgent);
    follow(model, ["text", "hint", "tone"], soon(() => {
      const [text, hint, tone] = ["text", "hint", "tone"].map((name) => model.get(name));
      const content = text
        ? [make("div", `ps-said ps-tone-${tone || "plain"}`, {},
            make("span", "ps-symbol", { "aria-hidden": "true" }, SYMBOLS[tone] ?? "i"),
            make("div", "", {},
              make("p", "", {}, tone === "problem" ? hidden("Problem: ") : null, advice(text)),
              hint ? make("p", "ps-hint", {}, advice(hint)) : null))]
        : [];
      polite.replaceChildren(...(tone === "problem" ? [] : content));
      urgent.replaceChildren(...(tone === "problem" ? content : []));
      el.classList.toggle("ps-none", !text);
    }));
  },
};
