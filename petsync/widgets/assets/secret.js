// A field that sends its text to the kernel as a message: the text is in no widget's state.
export default {
  render({ model, el }) {
    const id = freshId();
    const label = make("label", "ps-field-label", { for: id });
    const input = make("input", "ps-field-input", {
      id, autocomplete: "off", autocapitalize: "off", spellcheck: "false",
    });
    let sent = "";
    const send = (more) => {
      if (input.value === sent && !more) return;
      sent = input.value;
      model.send({ text: sent, ...more });
    };
    el.classList.add("petsync-part", "ps-field");
    el.append(label, input);
    input.addEventListener("input", () => send());
    input.addEventListener("change", () => send());
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.isComposing) return;
      event.preventDefault();
      send({ enter: true });
    });
    const heard = (content) => {
      if (content.clear) input.value = sent = "";
    };
    model.on("msg:custom", heard);
    follow(model, ["label", "hint", "masked", "disabled"], () => {
      label.textContent = short(model.get("label"));
      input.placeholder = short(model.get("hint"));
      input.type = model.get("masked") ? "password" : "text";
      input.disabled = model.get("disabled");
    });
    return () => model.off("msg:custom", heard);
  },
};
