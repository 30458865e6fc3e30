// What is known about the room: the last picture, with every change that came since.

export class Room {
  constructor() {
    this.picture = null;
    this.rows = new Map();
    this.events = []; // Newest first.
    this.ahead = 0; // By how much the server's clock is ahead of ours.
  }

  // The whole. Returns the events that are new, or null if all are: it is another server, which counts anew.
  take(whole) {
    const { sessions, happened, now, ...rest } = whole;
    const another = this.picture?.run !== rest.run;
    if (another) this.events = [];
    this.picture = rest;
    this.rows = new Map(sessions.map((row) => [row.key, row]));
    this.ahead = now - Date.now() / 1000;
    const fresh = this.happen(happened);
    return another ? null : fresh;
  }

  change({ set = {}, rows = [], gone = [], order = null }) {
    Object.assign(this.picture, set);
    for (const row of rows) this.rows.set(row.key, row);
    for (const key of gone) this.rows.delete(key);
    if (order) this.rows = new Map(order.filter((key) => this.rows.has(key)).map((key) => [key, this.rows.get(key)]));
  }

  happen(events) {
    const last = this.events[0]?.number ?? 0;
    const fresh = events.filter((event) => event.number > last);
    this.events.unshift(...fresh.slice().reverse());
    this.events.length = Math.min(this.events.length, 200);
    return fresh;
  }

  // Seconds since a moment of the server's.
  since(moment) { return Date.now() / 1000 + this.ahead - moment; }

  // Whether every session is among the rows.
  get complete() { return this.rows.size >= (this.picture?.total ?? 0); }
}
