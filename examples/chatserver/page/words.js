import { ChatError } from "/page/api.js";

// timing says where an answer came from and how long it took; all times are in
// ms from sending.
export function timing(role, waited, first, all) {
  const from = role ? `${role}: ` : "";
  return `${from}waited ${seconds(waited)}, first token after ${seconds(first)}, complete after ${seconds(all)}`;
}

// answering says the same of an answer that is not complete yet.
export function answering(role) {
  return role ? `${role}: answering…` : "answering…";
}

// tally says how many times the model ran for some answers.
export function tally(roles) {
  const runs = roles.filter((role) => role !== "joined").length;
  const shared = runs < roles.length;
  return `${count(roles.length, "answer")} from ${count(runs, "run")} of the model${shared ? ": equal messages share one" : ""}.`;
}

function count(n, thing) {
  return `${n} ${thing}${n === 1 ? "" : "s"}`;
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
  const status = err.status ? ` (${err.status})` : "";
  const why = denials.get(err.code);
  const what = why ? `Turned away${status}: ${why}.` : `${err.message}${status}`;
  const retry = err.retryAfter ? ` Try again in ${err.retryAfter} s, says the server’s Retry-After.` : "";
  return what + retry;
}

const denials = new Map([
  ["session_busy", "this session is still busy with another message"],
  ["queue_full", "this session is still busy with another message"],
  ["unavailable", "the lock service is unavailable"],
]);

// outage says what is the matter with Redis, in three parts of which the second
// changes with time; null where all is well.
export function outage({ redis, seconds, fallback }) {
  switch (redis) {
    case "away":
      return ["Redis cannot be reached (for ", duration(seconds), `): ${meanwhile[fallback]}.`];
    case "kept_back":
      return ["Redis was restarted and gives nothing out (for another ", duration(seconds), `): ${keptBack[fallback]}.`];
    default:
      return null;
  }
}

const meanwhile = {
  none: "messages are turned away",
  local: "this server takes turns for its own messages only",
  open: "messages are answered without taking turns",
};

const keptBack = { ...meanwhile, none: "messages wait or are turned away" };

function duration(seconds) {
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`;
}
