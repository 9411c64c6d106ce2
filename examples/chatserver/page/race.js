import { chat } from "/page/api.js";
import { checkStatus } from "/page/status.js";
import { answering, explain, seconds, tally, timing } from "/page/words.js";

// Long enough for the second message to wait visibly.
const questions = [
  "Why is the sky blue by day, red in the evening, and black at night?",
  "Why is grass green in spring, yellow in summer, and gone by the winter?",
  "How deep is the sea where it is deepest, and who has been there?",
  "How far away is the moon tonight, and how long is the way there?",
  "What do bees eat when it is cold outside and nothing is in flower?",
];

// What each button sends, as [user, session, question] of each tab. Browsers open
// six connections to a server: more tabs than that would wait in the browser.
const races = {
  same: [["alice", "tabs", 0], ["alice", "tabs", 1]],
  twice: [["alice", "tabs", 0], ["alice", "tabs", 0]],
  users: [["alice", "tabs", 0], ["bob", "tabs", 1]],
  crowd: [0, 1, 2, 3, 4].map((i) => ["alice", "tabs", i]),
};

// race sends from several tabs at the same moment and shows how each one fares.
export async function race(name, model) {
  const buttons = document.querySelectorAll("[data-race]");
  for (const b of buttons) b.disabled = true;
  const tabs = races[name].map(([user, session, i], n) => new Tab(n + 1, user, session, questions[i]));
  const sum = document.getElementById("sum");
  sum.textContent = "";
  document.getElementById("tabs").replaceChildren(...tabs.map((t) => t.element));

  const start = performance.now();
  let over = false;
  const draw = () => {
    const now = performance.now() - start;
    const end = Math.max(...tabs.map((t) => t.ended ?? now), 1);
    for (const t of tabs) t.draw(now, end);
    if (!over) requestAnimationFrame(draw);
  };
  requestAnimationFrame(draw);
  await Promise.all(tabs.map((t) => t.run(start, model)));
  over = true;
  draw();
  const roles = tabs.filter((t) => !t.failed).map((t) => t.role);
  if (roles.length > 0 && roles.every((role) => role)) sum.textContent = tally(roles);
  for (const b of buttons) b.disabled = false;
}

class Tab {
  constructor(number, user, session, question) {
    this.user = user;
    this.session = session;
    this.question = question;
    this.element = document.createElement("article");
    this.element.className = "tab";
    const title = this.add("h3", `Tab ${number} `);
    const who = document.createElement("span");
    who.textContent = `${user}, session “${session}”`;
    title.append(who);
    this.add("p", question, "question");
    this.answer = this.add("p", "", "answer");
    const bar = this.add("div", "", "bar");
    this.waiting = bar.appendChild(document.createElement("i"));
    this.answering = bar.appendChild(document.createElement("i"));
    this.status = this.add("p", "", "status");
    this.status.setAttribute("role", "status");
  }

  add(tag, text, className = "") {
    const el = document.createElement(tag);
    el.textContent = text;
    el.className = className;
    this.element.append(el);
    return el;
  }

  async run(start, model) {
    const elapsed = () => performance.now() - start;
    let first = 0;
    try {
      await chat({
        user: this.user,
        session: this.session,
        model,
        messages: [{ role: "user", content: this.question }],
        onStart: (role) => {
          this.role = role;
          this.started = elapsed();
        },
        onToken: (token) => {
          first ||= elapsed();
          this.answer.textContent += token;
        },
      });
      this.ended = elapsed();
      this.done = timing(this.role, this.started, first, this.ended);
    } catch (err) {
      this.ended = elapsed();
      this.failed = true;
      this.done = explain(err);
      checkStatus();
    }
  }

  // draw shows the state at a time, on an axis that ends at end.
  draw(now, end) {
    const until = this.ended ?? now;
    const waited = this.started ?? until;
    const mark = this.failed ? 3 : 0; // what was turned away ends in red, also where it only waited
    this.waiting.className = "waiting";
    this.answering.className = this.failed ? "refused" : this.role === "joined" ? "joined" : "answering";
    this.waiting.style.width = `${Math.max(0, (100 * waited) / end - mark)}%`;
    this.answering.style.width = `${Math.max(mark, (100 * (until - waited)) / end)}%`;
    const status = this.done ?? (this.started === undefined ? `waiting… ${seconds(now)}` : answering(this.role));
    if (this.status.textContent !== status) this.status.textContent = status;
    this.element.dataset.state = this.done ? (this.failed ? "refused" : "done") : this.started === undefined ? "waiting" : "answering";
  }
}
