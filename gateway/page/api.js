// What the page asks of the server.

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", credentials: "same-origin", ...options });
  } catch {
    throw new Refused(0, "The server cannot be reached.");
  }
  const body = await response.json().catch(() => null);
  if (!response.ok) throw new Refused(response.status, body?.error?.message ?? `The server answered ${response.status}.`);
  return body;
}

const post = (path, body) => ask(path, {
  method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
});

export const explain = (key) => ask(`/room/sessions/explain?${new URLSearchParams({ key })}`);
export const order = (what, key, more = {}) => post(`/room/sessions/${what}`, { key, ...more });
export const find = (text, state) => ask(`/room/state?${new URLSearchParams({ text, state })}`);
export const login = (token) => post("/login", { token });
export const logout = () => post("/logout", {});

// Whether somebody must sign in, and who has. A server that knows no sign-in needs none.
export async function loginState() {
  try {
    return await ask("/login/state");
  } catch (error) {
    if (error.status === 404) return { needed: false, who: null, operator: true };
    throw error;
  }
}
