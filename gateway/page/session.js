// One session: why it is as it is, and what can be done with it.

import { explain, order, Refused } from "./api.js";
import { $, make, mark, write } from "./dom.js";
import { bytes, duration, reason, STATES, TONES, turns, whole } from "./words.js";

const ORDERS = { commit: "Commit", evict: "Evict", interrupt: "Interrupt", end: "End session" };

export class Session {
  constructor(room, handlers) {
    this.room = room;
    this.handlers = handlers; // toast(text, wrong), denied(), closed()
    this.key = null;
    this.dialog = $("session");
    this.dialog.addEventListener("close", () => { this.key = null; this.handlers.closed(); });
    this.dialog.addEventListener("click", (event) => { if (event.target === this.dialog) this.dialog.close(); });
    this.buttons = Object.fromEntries(Object.entries(ORDERS).map(([what, label]) => [what,
      make("button", { type: "button", "data-order": what, class: what === "end" ? "danger" : "", onclick: () => this.order(what, this.key) }, label)]));
    $("session-orders").append(...Object.values(this.buttons));
  }

  async open(key) {
    this.key = key;
    write($("session-title"), key);
    write($("session-outcome"), "");
    $("session-why").replaceChildren();
    $("session-figures").replaceChildren();
    this.showState(this.room.rows.get(key)?.state ?? "known");
    if (!this.dialog.open) this.dialog.showModal();
    await this.refresh();
  }

  // Something has changed: ask anew, but not more often than somebody can read.
  touch(keys) {
    if (this.key === null || !keys.has(this.key) || this.due) return;
    this.due = setTimeout(() => { this.due = null; this.refresh(); }, 400);
  }

  async refresh() {
    const { key } = this;
    if (key === null) return;
    let told;
    try {
      told = await explain(key);
    } catch (error) {
      if (key === this.key) this.missing(error);
      return;
    }
    if (key !== this.key) return;
    this.showState(told.state);
    this.showWhy(told.why);
    this.showFigures(told.figures);
  }

  missing(error) {
    if (!(error instanceof Refused)) throw error;
    this.showState(error.status === 404 ? "gone" : "known");
    this.showWhy([error.status === 404 ? "This session is over, and nothing of it is kept here." : error.message]);
    $("session-figures").replaceChildren();
  }

  showState(state) {
    write($("session-state"), STATES[state] ?? state);
    mark($("session-state"), "data-tone", TONES[state] ?? "known");
    const row = this.room.rows.get(this.key);
    const gone = state === "gone" || state === "stored";
    this.buttons.commit.disabled = gone || row?.dirty === 0;
    this.buttons.evict.disabled = gone || state === "known" || row?.cached === false;
    this.buttons.interrupt.hidden = state !== "in turn";
    this.buttons.end.disabled = gone;
  }

  showWhy(sentences) {
    const list = $("session-why");
    if ([...list.children].map((item) => item.textContent).join("\n") === sentences.join("\n")) return;
    const error = this.room.rows.get(this.key)?.error;
    list.replaceChildren(...sentences.map((sentence) => make("li", { "data-wrong": Boolean(error) && sentence.includes(error.slice(0, 200)) }, sentence)));
  }

  showFigures(figures) {
    if (!figures) { $("session-figures").replaceChildren(); return; }
    const dirty = figures.generation - figures.committed;
    const pairs = [
      ["Completed turns", whole(figures.generation)],
      ["Uncommitted", dirty ? turns(dirty) : "none"],
      ["Waiting turns", whole(figures.waiting)],
      ["Agents so far", whole(figures.agents)],
      ["Idle", figures.idle_seconds === null ? "–" : duration(figures.idle_seconds)],
      ["Last release", figures.last_reason ? reason(figures.last_reason) : "none"],
    ];
    if (figures.weight) pairs.push(["Weight", bytes(figures.weight)]);
    if (figures.session_id && figures.session_id !== this.key) pairs.push(["Session id", figures.session_id]);
    $("session-figures").replaceChildren(...pairs.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  }

  // Commands: from here, or from the list.
  async order(what, key) {
    const more = {};
    if (what === "end") {
      const answer = await this.confirm(key);
      if (!answer) return;
      if (answer.interrupt) more.interrupt = true;
    }
    this.busy(what, true);
    try {
      this.report(key, ...outcome(what, await order(what, key, more), key, this.room.rows.get(key)));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (error.status === 401) this.handlers.denied();
      this.report(key, error.message, true);
    } finally {
      this.busy(what, false);
      if (key === this.key) this.refresh();
    }
  }

  busy(what, is) { mark(this.buttons[what], "aria-busy", is || null); }

  report(key, text, wrong = false) {
    if (key === this.key) {
      write($("session-outcome"), text);
      mark($("session-outcome"), "data-wrong", wrong);
    } else {
      this.handlers.toast(text, wrong);
    }
  }

  confirm(key) {
    const row = this.room.rows.get(key);
    const dialog = $("confirm"), inTurn = row?.state === "in turn";
    write($("confirm-key"), key);
    write($("confirm-text"), [
      inTurn ? "It is in a turn, and ends when that is over." : "Its agent is closed.",
      row?.dirty ? `${turns(row.dirty)} that ${row.dirty === 1 ? "is" : "are"} uncommitted will be committed first.` : "",
      "Its transcript stays, and its next turn goes on with it.",
    ].filter(Boolean).join(" "));
    $("confirm-now").hidden = !inTurn;
    $("confirm-interrupt").checked = false;
    dialog.returnValue = "no";
    dialog.showModal();
    return new Promise((done) => dialog.addEventListener("close", () => done(
      dialog.returnValue === "yes" ? { interrupt: inTurn && $("confirm-interrupt").checked } : null), { once: true }));
  }
}

// What to say, and whether it went wrong.
function outcome(what, told, key, row) {
  switch (what) {
    case "commit":
      if (told.outcome === "committed") return [`Committed ${turns(told.committed)} of ${key}.`];
      if (told.outcome === "pending") return [`The commit of ${key} goes on${told.note ? `: ${told.note}` : "."}`];
      if (told.outcome === "nothing") return [`${key} has nothing to commit.`];
      return [`The commit of ${key} failed: ${told.note}`, true];
    case "evict":
      if (!told.evicted) return [`${key} has no agent to release.`];
      return [row?.state === "in turn" ? `The agent of ${key} is released when its turn ends.` : `Releasing the agent of ${key}.`];
    case "interrupt":
      return [told.interrupted ? `Interrupting the turn of ${key}.` : `${key} is in no turn.`];
    default:
      if (!told.ended) return [`${key} is not in this room.`];
      return [row?.state === "in turn" && !told.interrupted ? `${key} ends when its turn does.` : `Ending ${key}.`];
  }
}
