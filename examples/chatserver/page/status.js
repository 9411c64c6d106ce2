import { status } from "/page/api.js";
import { outage } from "/page/words.js";

const every = 2000; // ms

let timer = 0;
let request = new AbortController();

// checkStatus asks how Redis is, now and from now on, and says so where it is
// not well. A page that nobody sees does not ask.
export async function checkStatus() {
  clearTimeout(timer);
  request.abort(); // its answer may be older than the reason to ask again
  if (document.hidden) return;
  request = new AbortController();
  const { signal } = request;
  let now = null;
  try {
    now = await status(signal);
  } catch {
    // the server has gone: what it knew may not hold any more
  }
  if (signal.aborted) return;
  show(now);
  timer = setTimeout(checkStatus, every);
}

document.addEventListener("visibilitychange", checkStatus);

let shown = null; // the banner, with the words that it was made of

// show leaves the banner in place where only the time in it is another, and has
// that not read out again every time.
function show(now) {
  const words = now && outage(now);
  if (!words) {
    shown?.banner.remove();
    shown = null;
    return;
  }
  const [before, time, after] = words;
  if (shown?.before !== before || shown.after !== after) {
    const banner = document.createElement("p");
    banner.className = `banner ${now.redis}`;
    const span = document.createElement("span");
    span.setAttribute("aria-live", "off");
    span.textContent = time;
    banner.append(before, span, after);
    document.getElementById("redis").replaceChildren(banner);
    shown = { banner, span, before, after };
  } else if (shown.span.textContent !== time) {
    shown.span.textContent = time;
  }
}
