// What happens, as it happens. People see every line; a screen reader hears of failures, and of the rest in sum.

import { $, chips, make } from "./dom.js";
import { tell } from "./words.js";

const MOST = 100;
const SAY_EVERY = 15_000;
const NOUNS = { evict: ["release", "releases"], commit: ["commit", "commits"], build: ["agent built", "agents built"] };

export class Feed {
  constructor(room, open) {
    this.room = room;
    this.open = open;
    this.list = $("happened");
    this.group = "";
    this.held = false;
    this.unsaid = {};
    this.chips = chips($("kinds"), [["", "All"], ["evict", "Releases"], ["commit", "Commits"], ["failure", "Failures"]], (group) => { this.group = group; this.draw(); });
    $("hold").addEventListener("click", () => this.hold());
    setInterval(() => this.say(), SAY_EVERY);
  }

  hold() {
    this.held = !this.held;
    $("hold").setAttribute("aria-pressed", this.held);
    $("hold").textContent = this.held ? "Go on" : "Hold";
    if (!this.held) this.draw();
  }

  draw() {
    const events = this.room.events.filter((event) => this.shows(event)).slice(0, MOST);
    this.list.replaceChildren(...events.map((event) => this.line(event)));
    this.count();
  }

  shows(event) { return !this.group || tell(event).group === this.group; }

  add(events) {
    for (const event of events) this.note(event);
    if (this.held) return;
    const lines = events.filter((event) => this.shows(event)).slice(-MOST).reverse().map((event) => this.line(event));
    for (const line of lines) line.classList.add("new");
    this.list.prepend(...lines);
    while (this.list.childElementCount > MOST) this.list.lastElementChild.remove();
    this.count();
  }

  count() {
    const failures = this.room.events.filter((event) => tell(event).group === "failure").length;
    this.chips.count("failure", failures);
    $("nothing").hidden = this.list.childElementCount > 0;
    $("nothing").textContent = this.room.events.length ? "Nothing of this kind has happened lately." : "Nothing has happened yet.";
  }

  line(event) {
    const { verb, detail, tone } = tell(event);
    const at = new Date(event.at * 1000);
    return make("li", { "data-tone": tone },
      make("time", { datetime: at.toISOString() }, at.toLocaleTimeString("en-GB")),
      make("span", { class: "what" },
        make("strong", {}, verb), " ",
        make("button", { type: "button", class: "key", onclick: () => this.open(event.key) }, event.key),
        detail ? make("span", { class: "detail" }, detail) : null));
  }

  note(event) {
    const { verb, detail, group } = tell(event);
    if (group === "failure") $("said").textContent = `${verb}: ${event.key}. ${detail}`;
    else if (NOUNS[group]) this.unsaid[group] = (this.unsaid[group] ?? 0) + 1;
  }

  say() {
    const parts = Object.entries(this.unsaid).map(([group, count]) => `${count} ${NOUNS[group][count === 1 ? 0 : 1]}`);
    if (parts.length) $("said").textContent = parts.join(", ");
    this.unsaid = {};
  }
}
