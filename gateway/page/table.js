// The list of sessions. One stop for the Tab key: arrow keys move between rows, letters command the row.

import { $, make, mark, write } from "./dom.js";
import { duration, reason, STATES, TONES, whole } from "./words.js";

const LETTERS = { c: "commit", e: "evict", i: "interrupt", x: "end", Delete: "end" };
const LABELS = { commit: "Commit", evict: "Evict", interrupt: "Interrupt", end: "End" };

export class Table {
  constructor(room, handlers) {
    this.room = room;
    this.handlers = handlers; // open(key), order(what, key)
    this.body = $("rows");
    this.lines = new Map();
    this.active = null;
    this.body.addEventListener("keydown", (event) => this.press(event));
    this.body.addEventListener("click", (event) => this.click(event));
    this.body.addEventListener("focusin", (event) => this.activate(event.target.closest("tr")?.dataset.key));
    setInterval(() => this.tick(), 1000);
  }

  // Rows stay where they are while somebody points at them or has the focus there: nothing moves from under a finger.
  get held() {
    return this.body.matches(":hover") || this.body.contains(document.activeElement);
  }

  show(rows) {
    const wanted = new Map(rows.map((row) => [row.key, row]));
    this.drop([...this.lines.keys()].filter((key) => !wanted.has(key)));
    for (const row of wanted.values()) this.lines.get(row.key)?.fill(row) ?? this.add(row);
    if (!this.held) this.sort([...wanted.keys()]);
    if (!this.lines.has(this.active)) this.activate(this.body.firstElementChild?.dataset.key);
    this.tick();
  }

  add(row) {
    const line = new Line(row.key);
    line.fill(row);
    this.lines.set(row.key, line);
    this.body.append(line.element);
  }

  drop(keys) {
    for (const key of keys) {
      const { element } = this.lines.get(key);
      const focused = element.contains(document.activeElement);
      const next = element.nextElementSibling ?? element.previousElementSibling;
      this.lines.delete(key);
      element.remove();
      if (focused) next?.querySelector(".key").focus();
    }
  }

  sort(keys) {
    let at = this.body.firstElementChild;
    for (const key of keys) {
      const { element } = this.lines.get(key);
      if (element === at) at = at.nextElementSibling;
      else this.body.insertBefore(element, at);
    }
  }

  activate(key) {
    if (key === undefined || key === this.active) return;
    this.lines.get(this.active)?.reach(false);
    this.active = key;
    this.lines.get(key)?.reach(true);
  }

  focus() { this.lines.get(this.active)?.element.querySelector(".key").focus(); }

  click(event) {
    const key = event.target.closest("tr")?.dataset.key;
    if (key === undefined) return;
    const what = event.target.closest("[data-order]")?.dataset.order;
    if (what) this.handlers.order(what, key);
    else if (getSelection().isCollapsed) this.handlers.open(key);
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const line = event.target.closest("tr");
    const to = this.next(line, event.key);
    if (to) {
      event.preventDefault();
      to.querySelector(".key").focus();
    } else if (event.key.length === 1 || event.key === "Delete") {
      const what = LETTERS[event.key] ?? LETTERS[event.key.toLowerCase()];
      if (!what || line.querySelector(`[data-order="${what}"]`).hidden) return;
      event.preventDefault();
      this.handlers.order(what, line.dataset.key);
    }
  }

  next(line, key) {
    switch (key) {
      case "ArrowDown": return line.nextElementSibling;
      case "ArrowUp": return line.previousElementSibling;
      case "Home": return this.body.firstElementChild;
      case "End": return this.body.lastElementChild;
      case "PageDown": return this.jump(line, 10, "nextElementSibling");
      case "PageUp": return this.jump(line, 10, "previousElementSibling");
      default: return null;
    }
  }

  jump(line, steps, way) {
    let at = line;
    for (let step = 0; step < steps && at[way]; step += 1) at = at[way];
    return at;
  }

  tick() { for (const line of this.lines.values()) line.tick(this.room); }
}

class Line {
  constructor(key) {
    const slash = key.indexOf("/");
    this.state = make("td", { class: "state" }, make("span", { class: "dot", "aria-hidden": "true" }), make("span", { class: "name" }), make("span", { class: "waiting" }));
    this.key = make("button", { type: "button", class: "key", tabindex: -1, "aria-haspopup": "dialog" },
      make("span", { class: "tenant" }, key.slice(0, slash + 1)), key.slice(slash + 1));
    this.note = make("span", { class: "note" });
    this.turns = make("td", { class: "number turns" });
    this.dirty = make("td", { class: "number dirty" });
    this.since = make("td", { class: "since" });
    this.orders = ["commit", "evict", "interrupt", "end"].map((what) => make("button",
      { type: "button", class: "small", tabindex: -1, "data-order": what, "aria-label": `${LABELS[what]} ${key}` }, LABELS[what]));
    this.element = make("tr", { "data-key": key }, this.state,
      make("th", { scope: "row" }, this.key, this.note), this.turns, this.dirty, this.since,
      make("td", { class: "orders" }, ...this.orders));
  }

  fill(row) {
    this.row = row;
    mark(this.element, "data-tone", TONES[row.state] ?? "known");
    write(this.state.children[1], STATES[row.state] ?? row.state);
    write(this.state.children[2], row.waiting ? `+${whole(row.waiting)} waiting` : "");
    const wrong = row.error !== null && (row.dirty > 0 || TONES[row.state] === "wrong");
    write(this.note, wrong ? row.error : row.state === "known" && row.reason ? `released: ${reason(row.reason)}` : "");
    mark(this.note, "data-wrong", wrong);
    write(this.turns, whole(row.turns));
    write(this.dirty, row.dirty ? whole(row.dirty) : "–");
    mark(this.dirty, "data-some", row.dirty > 0);
    const [commit, evict, interrupt] = this.orders;
    commit.hidden = row.dirty === 0;
    evict.hidden = !row.cached;
    interrupt.hidden = row.state !== "in turn";
    return this;
  }

  reach(can) {
    for (const button of [this.key, ...this.orders]) button.tabIndex = can ? 0 : -1;
  }

  tick(room) {
    const { turn_at, idle_at, state } = this.row;
    const moment = state === "in turn" ? turn_at : idle_at;
    write(this.since, moment === null ? "–" : duration(room.since(moment)));
  }
}
