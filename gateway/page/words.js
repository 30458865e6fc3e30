// How figures and events read.

const BYTES = ["B", "kB", "MB", "GB", "TB"];

export function bytes(count) {
  if (count === null || count === undefined) return "unknown";
  let size = count, unit = 0;
  while (size >= 1000 && unit < BYTES.length - 1) { size /= 1000; unit += 1; }
  return `${size >= 100 || unit === 0 ? Math.round(size) : size.toFixed(1)} ${BYTES[unit]}`;
}

export const whole = (count) => count.toLocaleString("en");

export function duration(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return hours(s, 3600, "h", 60, "min");
  return hours(s, 86400, "d", 3600, "h");
}

function hours(s, big, bigName, small, smallName) {
  const rest = Math.floor((s % big) / small);
  return `${Math.floor(s / big)} ${bigName}${rest ? ` ${rest} ${smallName}` : ""}`;
}

// How long something took, which may be very short.
export function took(seconds) {
  if (seconds === undefined || seconds === null || seconds < 0.001) return "";
  if (seconds < 1) return ` in ${Math.round(seconds * 1000)} ms`;
  return seconds < 60 ? ` in ${seconds.toFixed(1)} s` : ` in ${duration(seconds)}`;
}

export const turns = (count) => (count === 1 ? "1 turn" : `${whole(count)} turns`);

export const STATES = {
  "in turn": "In a turn", entering: "Entering", building: "Building", idle: "Idle", leaving: "Being released",
  closing: "Closing", retained: "Retained", known: "No agent", failed: "Failed", stored: "Stored", gone: "Ended",
};

// What a state is about, for its colour.
export const TONES = {
  "in turn": "turn", entering: "turn", building: "turn", idle: "idle", leaving: "leaving", closing: "leaving",
  retained: "wrong", known: "known", failed: "wrong", stored: "known", gone: "known",
};

const REASONS = {
  idle: "idle for too long", capacity: "the room was over its cap", memory: "the room was over its memory budget",
  spec: "it was built from something else", coherence: "another process wrote to it",
  "loop-closed": "its event loop was closed",
  recovery: "built only to recover what was left", explicit: "on request", discard: "its turn said so",
  shutdown: "the room is being drained", "session-expired": "unused for too long", failure: "something went wrong",
};

export const reason = (name) => REASONS[name] ?? name;

const FAILED = {
  build: "Agent not built", commit: "Commit failed", hook: "Hook failed", session: "Session failed",
  store: "Store failed", recovery: "Recovery failed", turn: "Turn failed",
};

// What happened: a verb, what it is about, and for which filter of the feed it is.
export function tell(event) {
  const why = event.reason ? reason(event.reason) : "";
  switch (event.kind) {
    case "build": return { verb: event.adopted ? "Adopted" : "Built", detail: [took(event.seconds).trim(), why].filter(Boolean).join(", "), tone: "turn", group: "build" };
    case "release": return { verb: "Released", detail: why, tone: "leaving", group: "evict" };
    case "close": return { verb: "Closed", detail: why, tone: "leaving", group: "evict" };
    case "end": return { verb: "Ended", detail: why, tone: "leaving", group: "evict" };
    case "commit": return { verb: "Committed", detail: `${turns(event.turns ?? 0)}${took(event.seconds)}`, tone: "good", group: "commit" };
    case "recover": return { verb: "Recovered", detail: "what another room had left uncommitted", tone: "good", group: "commit" };
    case "retain": return { verb: "Retained", detail: "until its commit, which failed, works", tone: "dirty", group: "failure" };
    case "lost": return { verb: "Taken over", detail: `by another room, with ${turns(event.turns ?? 0)} uncommitted`, tone: "dirty", group: "failure" };
    case "interrupt": return { verb: "Interrupted", detail: "its turn is not completed", tone: "turn", group: "turn" };
    case "hangup": return { verb: "Hung up", detail: "the client has gone, its turn is not completed", tone: "turn", group: "turn" };
    case "failure": return { verb: failure(event), detail: problem(event), tone: "wrong", group: "failure" };
    default: return { verb: event.kind, detail: why, tone: "known", group: "other" };
  }
}

function failure(event) {
  const name = FAILED[event.failed] ?? "Failure";
  const what = event.hook ?? event.what;
  const tries = event.tries > 1 ? `, try ${event.tries}` : "";
  return `${name}${what ? ` (${what})` : ""}${tries}`;
}

const problem = (event) => event.error ?? event.problem ?? (event.reason ? reason(event.reason) : "");
