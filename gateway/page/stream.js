// The connection to the room: opens it, notices when it is gone, and opens it again.
//
// EventSource does most of this itself, but gives up for good when the server answers with an error, as one
// does that is just starting, and cannot notice a connection that has died without a word.

const SILENCE = 40_000; // The server is never silent for longer than 15 seconds.
const LONGEST_WAIT = 8_000;
const UNSEEN = 60_000;

export class Stream {
  constructor(handlers) {
    this.handlers = handlers; // room, change, happened, bye; lost(ended), again()
    this.wait = 500;
    this.source = null;
    addEventListener("online", () => this.retry());
    document.addEventListener("visibilitychange", () => this.look());
    addEventListener("pagehide", () => this.source?.close());
    addEventListener("pageshow", (event) => { if (event.persisted) this.open(); });
  }

  open() {
    this.close();
    const source = this.source = new EventSource("/room/events");
    for (const name of ["room", "change", "happened", "bye"]) {
      source.addEventListener(name, (event) => {
        this.heard();
        this.wait = 500;
        this.handlers[name](JSON.parse(event.data));
        if (name === "bye") this.lose(true);
      });
    }
    source.addEventListener("beat", () => this.heard());
    source.addEventListener("error", () => this.lose(false));
    this.heard();
  }

  // A page that nobody looks at for a while lets its connection go: a browser has six for a server, in all its tabs.
  look() {
    clearTimeout(this.rest);
    if (document.hidden) {
      this.rest = setTimeout(() => { this.resting = this.source !== null; if (this.resting) this.close(); }, UNSEEN);
    } else if (this.resting) {
      this.resting = false;
      this.handlers.again();
    } else {
      this.retry();
    }
  }

  heard() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.lose(false), SILENCE);
  }

  close() {
    this.source?.close();
    this.source = null;
    clearTimeout(this.silence);
    clearTimeout(this.again);
  }

  lose(ended) {
    if (this.source) this.fail(ended);
  }

  fail(ended) {
    this.close();
    const wait = this.wait * (0.75 + Math.random() / 2); // Not all pages at the same moment.
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
    this.again = setTimeout(() => this.handlers.again(), wait);
    this.handlers.lost(ended);
  }

  // Now, and not when the wait is over.
  retry() {
    if (!this.source && this.again) { clearTimeout(this.again); this.handlers.again(); }
  }
}
