// Tables that are wider than the page scroll: let the keyboard reach them.
addEventListener("load", () => {
  const boxes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });
  const wide = ".md-typeset__scrollwrap, .shown table";
  for (const box of document.querySelectorAll(wide)) boxes.observe(box);
});
