import { ChatError } from "/page/api.js";

// timing says how long an answer took; all times are in ms from sending.
export function timing(waited, first, all) {
  return `waited ${seconds(waited)}, first token after ${seconds(first)}, complete after ${seconds(all)}`;
}

export function seconds(ms) {
  return `${(ms / 1000).toFixed(2)} s`;
}

// explain says in plain words what an error means for who sent the message.
export function explain(err) {
  if (err.name === "AbortError") return "stopped";
  if (!(err instanceof ChatError)) {
    console.error(err);
    return "This page has failed; the console says how.";
  }
  const busy = err.code === "session_busy" || err.code === "queue_full";
  const status = err.status ? ` (${err.status})` : "";
  const what = busy ? `Turned away${status}: this session is still busy with another message.` : `${err.message}${status}`;
  const retry = err.retryAfter ? ` Try again in ${err.retryAfter} s, says the server’s Retry-After.` : "";
  return what + retry;
}
