// Small tools for the page. Text only ever becomes a text node: nothing that a session is called, or that an error
// says, is read as markup.

export const $ = (id) => document.getElementById(id);

export function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Only what differs is written, so that nothing flickers, and a selection of text stays.
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function mark(element, name, value) {
  if (value === null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// A group of buttons of which one is pressed.
export function chips(group, choices, choose) {
  const buttons = new Map();
  const press = (value) => {
    for (const [name, button] of buttons) mark(button, "aria-pressed", name === value);
  };
  for (const [value, label] of choices) {
    const count = make("span", { class: "count" });
    const button = make("button", { type: "button", class: "chip", "data-value": value }, label, " ", count);
    button.addEventListener("click", () => { press(value); choose(value); });
    buttons.set(value, button);
    group.append(button);
  }
  press(choices[0][0]);
  return {
    press,
    count(value, number) { write(buttons.get(value).querySelector(".count"), number ? String(number) : ""); },
  };
}

export async function copy(text, source) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Not a secure context, or not allowed: mark it, so that the keyboard can copy it.
    getSelection().selectAllChildren(source);
    return false;
  }
}
