// The figures at the top, and what needs attention.

import { $, make, mark, write } from "./dom.js";
import { bytes, duration, tell, turns, whole } from "./words.js";

const RECENT = 600; // Seconds for which a failure that nothing has mended needs attention.
const MOST = 4;

export function showGlance({ stats, turns: running, memory, policy, states }) {
  const { cap } = policy;
  write($("agents"), whole(stats.cached));
  write($("agents-of"), cap === null ? "no cap" : `of ${whole(cap)}`);
  meter("agents", stats.cached, cap, stats.over_cap > 0);
  const ttl = policy.idle_ttl === null ? "" : `at most ${duration(policy.idle_ttl)} idle`;
  write($("agents-more"), stats.over_cap ? `${whole(stats.over_cap)} over the cap, in a turn` : stats.busy ? `${whole(stats.busy)} being built, committed or released` : ttl);

  write($("turns"), whole(running.running));
  write($("turns-of"), `of ${whole(running.most)}`);
  meter("turns", running.running, running.most, running.waiting > 0 && running.running >= running.most);
  write($("turns-more"), `${whole(running.waiting)} waiting`);

  write($("memory-title"), memory.weighed ? "Weight of agents" : "Memory");
  write($("memory"), bytes(memory.held));
  write($("memory-of"), memory.budget === null ? "no budget" : `of ${bytes(memory.budget)}`);
  meter("memory", memory.held ?? 0, memory.budget, memory.budget !== null && memory.held > memory.budget);
  const shed = stats.reasons.memory ?? 0;
  write($("memory-more"), shed ? `${whole(shed)} agents released for it` : memory.budget === null ? "memory_budget would bound it" : `${Math.round((100 * (memory.held ?? 0)) / memory.budget)} % of the budget`);

  const dirty = states.dirty ?? stats.dirty;
  write($("dirty"), whole(stats.dirty));
  write($("dirty-of"), stats.dirty === 1 ? "session" : "sessions");
  meter("dirty", stats.dirty, Math.max(stats.known, dirty, 1), stats.retained > 0, true);
  const commits = `${whole(stats.commits)} commits`;
  write($("dirty-more"), stats.commit_failures ? `${commits}, ${whole(stats.commit_failures)} failed` : commits);
}

function meter(name, value, most, bad, calm = false) {
  const element = $(`${name}-meter`);
  const share = most ? Math.min(value / most, 1) : 0;
  element.firstElementChild.style.transform = `scaleX(${share})`;
  mark(element, "data-level", bad ? "bad" : !calm && share >= 0.9 ? "high" : "fine");
  mark(element, "data-open", most === null);
  mark(element, "aria-valuenow", value);
  mark(element, "aria-valuemax", most ?? value);
  mark(element, "aria-valuetext", `${$(name).textContent} ${$(`${name}-of`).textContent}`);
}

// What needs attention: sessions that have failed, hooks that are stuck, and failures that nothing has mended since.
export function showAttention(room, seen, open) {
  const items = [...failing(room), ...stuck(room.picture.stats), ...unmended(room, seen)];
  const list = $("attention-list");
  const shown = items.slice(0, MOST).map((item) => entry(item, open));
  if (items.length > MOST) shown.push(make("li", { class: "rest" }, `and ${items.length - MOST} more: see Failures below`));
  const signature = shown.map((item) => item.textContent).join("\n");
  if (list.dataset.shown !== signature) { list.replaceChildren(...shown); list.dataset.shown = signature; }
  $("attention").hidden = items.length === 0;
}

function* failing(room) {
  for (const row of room.rows.values()) {
    if (row.state !== "failed" && row.state !== "retained") continue;
    const what = row.state === "failed" ? "Session failed: it takes no turn until it is ended" : `${turns(row.dirty)} could not be committed`;
    yield { key: row.key, what, why: row.error };
  }
}

function* stuck(stats) {
  for (const hook of stats.stuck) yield { key: null, what: "A hook is stuck", why: hook };
  if (stats.unrecorded) yield { key: null, what: `${whole(stats.unrecorded)} sessions have turns that the store could not be told of yet`, why: null };
}

const MENDED_BY = { commit: "commit", build: "build", session: "end", recovery: "recover" };

function* unmended(room, seen) {
  const mended = new Set(), found = new Map();
  for (const event of room.events) { // Newest first: what comes later has been before.
    if (event.kind !== "failure") { mended.add(`${event.kind} ${event.key}`); continue; }
    if (event.number <= seen || room.since(event.at) > RECENT) continue;
    if (mended.has(`${MENDED_BY[event.failed]} ${event.key}`) || mended.has(`end ${event.key}`)) continue;
    const row = room.rows.get(event.key);
    if (row && (row.state === "failed" || row.state === "retained")) continue; // Told above.
    const { verb, detail } = tell(event);
    const name = `${event.key} ${event.failed}`;
    const before = found.get(name);
    if (before) before.times += 1;
    else found.set(name, { key: event.key, what: verb, why: detail, times: 1 });
  }
  yield* found.values();
}

function entry({ key, what, why, times = 1 }, open) {
  const name = key === null ? null : make("button", { type: "button", class: "key", onclick: () => open(key) }, key);
  return make("li", {}, make("strong", {}, times > 1 ? `${what}, ${times} times` : what), name, why ? make("span", { class: "error" }, why) : null);
}
