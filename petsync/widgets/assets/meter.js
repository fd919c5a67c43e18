// Progress: the browser's element, which works with screen readers and forced colours.
export default {
  render({ model, el }) {
    const id = freshId();
    const label = make("span", "ps-label", { id });
    const bar = make("progress", "", { "aria-labelledby": id });
    const text = make("span", "ps-aside", {});
    el.classList.add("petsync-part", "ps-meter");
    el.append(label, bar, text);
    follow(model, ["label", "text", "done", "total", "shown"], soon(() => {
      label.textContent = short(model.get("label")) || "Progress";
      text.textContent = short(model.get("text"), 300);
      const [done, total] = [model.get("done"), model.get("total")];
      if (total > 0) {
        bar.max = total;
        bar.value = Math.min(Math.max(done, 0), total);
      } else {
        bar.removeAttribute("value");
      }
      for (const child of el.children) child.hidden = !model.get("shown");
    }));
  },
};
