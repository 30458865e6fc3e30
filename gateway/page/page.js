// The page: connects the room to what is seen of it.

import { find, login, loginState, logout, Refused } from "./api.js";
import { $, chips, copy, make, mark, write } from "./dom.js";
import { Feed } from "./feed.js";
import { showAttention, showGlance } from "./glance.js";
import { Room } from "./room.js";
import { Session } from "./session.js";
import { Stream } from "./stream.js";
import { Table } from "./table.js";
import { whole } from "./words.js";

const SEARCH_EVERY = 2000; // Milliseconds between two searches of what is not on the page.
const TOAST = 7000;

const ALSO = { "in turn": ["in turn", "entering", "building"], leaving: ["leaving", "closing"], failed: ["failed", "retained"] };
const CHOICES = [["", "All"], ["in turn", "In a turn"], ["dirty", "Uncommitted"], ["idle", "Idle"], ["leaving", "Leaving"], ["known", "No agent"], ["failed", "Failing"]];

const room = new Room();
const session = new Session(room, { toast, denied: start, closed: () => { if (document.activeElement === document.body) table.focus(); } });
const open = (key) => session.open(key);
const table = new Table(room, { open, order: (what, key) => session.order(what, key) });
const feed = new Feed(room, open);
const filter = { text: "", state: "", found: null, rows: null, asked: 0 };
let seen = 0;
let tokenNeeded = false;

const stream = new Stream({
  room(whole) {
    const fresh = room.take(whole);
    linked();
    if (fresh) { feed.add(fresh); } else { seen = 0; feed.draw(); }
    draw();
  },
  change(changes) {
    room.change(changes);
    session.touch(new Set([...(changes.rows ?? []).map((row) => row.key), ...(changes.gone ?? [])]));
    draw();
  },
  happened(events) {
    feed.add(room.happen(events));
    session.touch(new Set(events.map((event) => event.key)));
    if (room.picture) showAttention(room, seen, open);
  },
  bye() {},
  lost(ended) { link("lost", ended ? "The server has ended" : "Disconnected"); notice(ended ? "The server has shut down. This page looks for it again." : "The connection to the server is lost. What you see is what was last known."); },
  again: start,
});

const stateChips = chips($("chips"), CHOICES, (state) => { filter.state = state; search(); });

// Signing in.

async function start() {
  let state;
  try {
    state = await loginState();
  } catch {
    stream.fail(false);
    return;
  }
  tokenNeeded = state.needed;
  $("logout").hidden = !(state.needed && state.who);
  if (state.operator) { showLogin(false); stream.open(); return; }
  showLogin(true, state.who ? `The token of ${state.who} is not an operator's, and only these see the room.` : "");
}

function showLogin(shown, wrong = "") {
  if (shown) { stream.close(); $("main").hidden = true; notice(""); link("out", "Signed out"); }
  $("login").hidden = !shown;
  write($("login-wrong"), wrong);
  if (shown) $("token").focus();
}

$("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await login($("token").value);
    $("token").value = "";
    start();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    write($("login-wrong"), error.message);
    $("token").select();
  }
});

$("logout").addEventListener("click", async () => { await logout().catch(() => {}); start(); });

// The connection.

function linked() {
  $("main").hidden = false;
  notice("");
}

function link(state, text) {
  mark($("link"), "data-state", state);
  write($("link-text"), text);
}

function notice(text) {
  write($("notice"), text);
  $("notice").hidden = !text;
}

// What is seen.

function draw() {
  const { picture } = room;
  link(picture.draining ? "draining" : "live", picture.draining ? "Draining" : "Live");
  notice(picture.draining ? "The server is shutting down: no turn begins any more, and what is uncommitted is being committed." : "");
  write($("what"), picture.agent === picture.model ? picture.model : `${picture.model}, agent ${picture.agent}`);
  document.title = `${picture.stats.in_turn ? `(${picture.stats.in_turn}) ` : ""}greenroom`;
  showGlance(picture);
  showAttention(room, seen, open);
  const empty = picture.total === 0 && room.events.length === 0;
  $("empty").hidden = !empty;
  $("columns").hidden = empty;
  if (empty) write($("curl"), curl(picture.model));
  for (const [state] of CHOICES) stateChips.count(state, state ? count(picture.states, state) : picture.total);
  list();
}

const count = (states, state) => (ALSO[state] ?? [state]).reduce((sum, name) => sum + (states[name] ?? 0), 0);

// The rows to show: those on the page, if these are all; else what the server finds.
function list() {
  const filtered = filter.text || filter.state;
  const here = [...room.rows.values()].filter(matches);
  if (!filtered || room.complete) filter.rows = null;
  else if (performance.now() - filter.asked > SEARCH_EVERY) searchFar();
  const rows = filter.rows?.map((row) => room.rows.get(row.key) ?? row) ?? here;
  const all = filter.rows ? filter.found : filtered ? here.length : room.picture.total;
  table.show(rows);
  write($("sessions-count"), whole(room.picture.total));
  write($("shown"), rows.length < all ? `The first ${whole(rows.length)} of ${whole(all)}. Find others by name.` : "");
  $("none").hidden = rows.length > 0;
  $("table").hidden = rows.length === 0;
  write($("none"), filtered ? "No session is like that." : "No sessions. The next turn begins one.");
}

function matches(row) {
  if (filter.text && !row.key.toLowerCase().includes(filter.text.toLowerCase())) return false;
  if (filter.state === "dirty") return row.dirty > 0;
  return !filter.state || (ALSO[filter.state] ?? [filter.state]).includes(row.state);
}

async function searchFar() {
  filter.asked = performance.now();
  const { text, state } = filter;
  try {
    const { sessions, found } = await find(text, state);
    if (text !== filter.text || state !== filter.state) return;
    Object.assign(filter, { rows: sessions, found });
    list();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
  }
}

function search() {
  filter.rows = null;
  clearTimeout(search.soon);
  if (!room.picture) return;
  filter.asked = performance.now();
  if (!room.complete && (filter.text || filter.state)) search.soon = setTimeout(searchFar, 150);
  list();
}

$("find").addEventListener("input", () => { filter.text = $("find").value.trim(); search(); });
$("find").addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") { event.preventDefault(); table.focus(); }
});

addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, dialog");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !$("main").hidden) {
    event.preventDefault();
    $("find").focus();
  }
});

$("seen").addEventListener("click", () => { seen = room.events[0]?.number ?? 0; showAttention(room, seen, open); });

// The first session.

function curl(model) {
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "Hello!" }] });
  const token = tokenNeeded ? " \\\n  -H \"Authorization: Bearer $GREENROOM_TOKEN\"" : "";
  return `curl ${location.origin}/v1/chat/completions${token} \\\n  -H 'Content-Type: application/json' \\\n  -H 'X-Greenroom-Session: alice' \\\n  -d '${body}'`;
}

$("copy").addEventListener("click", async () => {
  const done = await copy($("curl").textContent, $("curl"));
  toast(done ? "Copied." : "Selected: copy it with the keyboard.");
});

function toast(text, wrong = false) {
  const item = make("p", { class: "toast", "data-wrong": wrong || null }, text);
  $("toasts").append(item);
  setTimeout(() => item.remove(), TOAST);
}

start();
