// A link to another tab, and its address to copy. The address comes as a message.
export default {
  render({ model, el }) {
    const id = freshId();
    const link = make("a", "ps-link-open", { target: "_blank", rel: "noopener noreferrer" });
    const field = make("input", "ps-field-input", { id, type: "text", readonly: true });
    const copy = make("button", "ps-button", { type: "button" }, "Copy");
    const status = make("span", "ps-field-hint", { role: "status" });
    const label = make("label", "ps-field-label", { for: id }, "Or copy the link");
    el.classList.add("petsync-part", "ps-link");
    el.append(link, make("div", "ps-field", {}, label, field, copy, status));
    const lead = (url) => {
      const good = isWeb(url);
      el.hidden = !good;
      status.textContent = "";
      field.value = good ? url : "";
      if (good) link.setAttribute("href", url);
      else link.removeAttribute("href");
      return good;
    };
    field.addEventListener("focus", () => field.select());
    copy.addEventListener("click", async () => {
      field.select();
      try {
        await navigator.clipboard.writeText(field.value);
        status.textContent = "Copied.";
      } catch {
        status.textContent = document.execCommand("copy") ? "Copied." : "Press Ctrl+C to copy it.";
      }
    });
    const heard = (content) => {
      if (typeof content.url === "string" && lead(content.url) && content.focus) link.focus();
    };
    model.on("msg:custom", heard);
    follow(model, ["label"], () => {
      link.textContent = short(model.get("label"));
    });
    lead("");
    model.send({ ready: true });
    return () => model.off("msg:custom", heard);
  },
};
