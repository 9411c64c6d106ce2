// The OpenAI API, as far as this page needs it.

// A ChatError says in plain words what went wrong.
export class ChatError extends Error {
  constructor(message, { status = 0, code = "", retryAfter = 0 } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter; // seconds; 0: the server does not say
  }
}

// chat sends messages and streams the answer. onStart is called once the
// server answers, that is when the message's turn has come, with where the
// answer comes from: "leader", "queued" or "joined", see words.js. onToken is
// called with each piece of text. It resolves when the answer is complete.
export async function chat({ user, session, model, messages, signal, onStart, onToken }) {
  const response = await post({ user, session, model, messages, signal });
  if (!response.ok) throw await refusal(response);
  onStart(response.headers.get("X-Reqlock") ?? "");
  for await (const data of events(response.body)) {
    if (data === "[DONE]") return;
    const chunk = parse(data);
    if (chunk.error) throw new ChatError(String(chunk.error.message), { code: String(chunk.error.code ?? "") });
    const token = chunk.choices?.[0]?.delta?.content;
    if (token) onToken(token);
  }
  throw new ChatError("The answer was cut off.");
}

// models resolves to the names of the models there are.
export async function models() {
  const response = await fetch("/v1/models");
  if (!response.ok) throw await refusal(response);
  return (await response.json()).data.map((m) => String(m.id));
}

// status resolves to what the server says of Redis.
export async function status(signal) {
  const response = await fetch("/page/status.json", { signal });
  if (!response.ok) throw await refusal(response);
  return response.json();
}

async function post({ user, session, model, messages, signal }) {
  const headers = { "Content-Type": "application/json" };
  if (user) headers["X-User-ID"] = user;
  if (session) headers["X-Session-ID"] = session;
  const body = JSON.stringify({ model, messages, stream: true });
  try {
    return await fetch("/v1/chat/completions", { method: "POST", headers, body, signal });
  } catch (err) {
    if (err.name === "AbortError") throw err;
    throw new ChatError("The server cannot be reached.");
  }
}

async function refusal(response) {
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    // not JSON: the status has to do
  }
  return new ChatError(String(error.message ?? `The server answered ${response.status}.`), {
    status: response.status,
    code: String(error.code ?? ""),
    retryAfter: Number(response.headers.get("Retry-After")) || 0,
  });
}

// events yields the data of server-sent events.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      let part;
      try {
        part = await reader.read();
      } catch (err) {
        if (err.name === "AbortError") throw err;
        throw new ChatError("The connection broke in the middle of the answer.");
      }
      if (part.done) return;
      const all = (rest + part.value).split(/\r?\n\r?\n/);
      rest = all.pop();
      for (const event of all) {
        const lines = event.split(/\r?\n/).filter((line) => line.startsWith("data:"));
        if (lines.length > 0) yield lines.map((line) => line.slice(5).trimStart()).join("\n");
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // ends the request if we stopped reading
  }
}

function parse(data) {
  try {
    return JSON.parse(data);
  } catch {
    throw new ChatError("The server sent something that is no answer.");
  }
}
