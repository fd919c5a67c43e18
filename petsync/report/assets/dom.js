"use strict";
// Makes elements. Text from outside only ever becomes a text node.
const count = (n) => n.toLocaleString("en");

/** Make an element of a class; attributes and children that are null are left out. */
const make = (tag, kind, attributes, ...children) => {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value != null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
};

const quiet = (kind, text) => make("span", kind, { "aria-hidden": "true" }, text);
const hidden = (text) => make("span", "ps-hidden", {}, text);
const bdi = (text) => make("bdi", "", {}, text);
