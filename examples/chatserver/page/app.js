import { chat, models } from "/page/api.js";
import { race } from "/page/race.js";
import { checkStatus } from "/page/status.js";
import { answering, explain, timing } from "/page/words.js";

const $ = (id) => document.getElementById(id);

// Conversations by user and session. They live in this page, so that reloading
// it starts afresh; the server keeps nothing.
const conversations = new Map();

function conversation() {
  const key = JSON.stringify([$("user").value.trim(), $("session").value.trim()]);
  if (!conversations.has(key)) conversations.set(key, { messages: [], entries: [] });
  return conversations.get(key);
}

function show(current) {
  const log = $("log");
  log.replaceChildren(...current.entries);
  if (current.entries.length === 0) {
    const empty = document.createElement("p");
    empty.className = "empty";
    empty.textContent = "Nothing said yet in this session.";
    log.append(empty);
  }
  log.scrollTop = log.scrollHeight;
}

function entry(who, text) {
  const div = document.createElement("div");
  div.className = `entry ${who}`;
  const body = document.createElement("p");
  body.textContent = text;
  const note = document.createElement("small");
  div.append(body, note);
  return { div, body, note };
}

let running = null; // the AbortController of the message being answered

async function send(text) {
  const current = conversation();
  const question = { role: "user", content: text };
  const said = entry("user", text);
  const answer = entry("assistant", "");
  answer.note.textContent = "waiting for its turn…";
  current.entries.push(said.div, answer.div);
  show(current);

  const start = performance.now();
  let waited = 0;
  let first = 0;
  let role = "";
  running = new AbortController();
  setRunning(true);
  try {
    await chat({
      user: $("user").value.trim(),
      session: $("session").value.trim(),
      model: $("model").value.trim(),
      messages: [...current.messages, question],
      signal: running.signal,
      onStart: (from) => {
        role = from;
        waited = performance.now() - start;
        answer.note.textContent = answering(role);
      },
      onToken: (token) => {
        first ||= performance.now() - start;
        answer.body.textContent += token;
        $("log").scrollTop = $("log").scrollHeight;
      },
    });
    // Only what was answered becomes part of what the next message is sent with.
    current.messages.push(question, { role: "assistant", content: answer.body.textContent });
    answer.note.textContent = timing(role, waited, first, performance.now() - start);
  } catch (err) {
    answer.note.textContent = explain(err);
    answer.div.classList.add("failed");
    checkStatus();
  } finally {
    running = null;
    setRunning(false);
    $("log").scrollTop = $("log").scrollHeight;
  }
}

function setRunning(on) {
  $("send").hidden = on;
  $("stop").hidden = !on;
  for (const id of ["user", "session", "model"]) $(id).disabled = on;
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("text").value.trim();
  if (!text || running || !$("user").reportValidity() || !$("session").reportValidity()) return;
  $("text").value = "";
  send(text);
});
$("stop").addEventListener("click", () => running?.abort());
for (const id of ["user", "session"]) {
  $(id).addEventListener("input", () => {
    // Headers carry them, and those hold no other characters.
    const field = $(id);
    field.setCustomValidity(/^[ -~]*$/.test(field.value) ? "" : "Plain letters, digits and signs only, please.");
    field.reportValidity();
    show(conversation());
  });
}
for (const button of document.querySelectorAll("[data-race]")) {
  button.addEventListener("click", () => race(button.dataset.race, $("model").value.trim()));
}

checkStatus();
try {
  const names = await models();
  for (const name of names) {
    const option = document.createElement("option");
    option.value = name;
    $("models").append(option);
  }
  if (names.length > 0 && !names.includes($("model").value)) $("model").value = names[0];
} catch (err) {
  console.warn(err); // the models can be typed
}
