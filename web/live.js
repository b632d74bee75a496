// Follows the live feed: the counters in the head of each page, and the rows of the page of the feed. Text only ever becomes text.
const LINES = 50;
const part = (name) => document.querySelector(`[data-live="${name}"]`);
const [ready, waiting, alerts, spoken, feed, none] = ["ready", "waiting", "alerts", "spoken", "feed", "none"].map(part);
const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
let last = feed?.dataset.after ?? "";
let source = null;
let failures = 0;
let told = 0;
let telling = 0;

const element = (name, text, more = {}) => {
  const made = document.createElement(name);
  made.textContent = text;
  return Object.assign(made, more);
};

const cell = (name, text, href) => {
  const made = document.createElement(name);
  if (name === "th") made.scope = "row";
  made.append(href ? element("a", text, { href }) : text);
  return made;
};

const row = (line) => {
  const made = document.createElement("tr");
  made.dataset.row = "";
  const when = document.createElement("td");
  const at = new Date(line.ts);
  const time = element("time", Number.isNaN(at.getTime()) ? line.ts : local.format(at), { dateTime: line.ts, title: line.ts });
  when.append(time);
  const call = /^[0-9a-f]{32}\/\d+$/.test(line.at ?? "") ? `/console/calls/${line.at}` : "";
  const run = /^[0-9a-f-]{36}$/.test(line.run ?? "") ? `/console/runs/${line.run}` : "";
  made.append(when, cell("th", line.kind, call));
  for (const text of [line.agent, line.tool, line.verdict, line.code]) made.append(cell("td", text ?? "–"));
  made.append(cell("td", line.run ? `${line.run.slice(0, 8)}…` : "–", run));
  return made;
};

const left = (more) => {
  const made = document.createElement("tr");
  const text = more === null ? "Some events may be missing here" : `${more} more`;
  const only = cell("td", `${text}: search for them`, "/console/calls?q=since%3A1h");
  only.colSpan = 7;
  made.append(only);
  return made;
};

const arrived = (event) => {
  if (event.lastEventId) last = event.lastEventId;
  if (!feed) return;
  const line = JSON.parse(event.data);
  feed.prepend("more" in line ? left(line.more) : row(line));
  while (feed.rows.length > LINES) feed.deleteRow(-1);
  if (none) none.hidden = true;
};

// Spoken at most every ten seconds, whatever the counters do.
const tell = () => {
  clearTimeout(telling);
  const wait = told + 10_000 - Date.now();
  if (wait > 0) {
    telling = setTimeout(tell, wait);
    return;
  }
  told = Date.now();
  spoken.textContent = `${ready.textContent}, ${waiting.textContent} waiting`;
};

const counted = (event) => {
  const now = JSON.parse(event.data);
  const words = now.ready ? "● ready" : "■ not ready";
  const same = ready.textContent === words && waiting.textContent === String(now.waiting);
  ready.textContent = words;
  ready.className = now.ready ? "state good" : "state bad";
  waiting.textContent = String(now.waiting);
  if (alerts) alerts.textContent = String(now.alerts);
  if (!same) tell();
};

const close = () => {
  source?.close();
  source = null;
};

const open = () => {
  if (source || document.hidden) return;
  const after = feed && last ? `?after=${encodeURIComponent(last)}` : "";
  source = new EventSource(`/console/live/events${after}`);
  source.addEventListener("open", () => {
    failures = 0;
  });
  source.addEventListener("message", arrived);
  source.addEventListener("head", counted);
  source.addEventListener("error", () => {
    // A browser comes back by itself after a broken connection, and not after a refusal: the session may have ended.
    if (source?.readyState !== EventSource.CLOSED) return;
    close();
    failures += 1;
    if (failures < 4) setTimeout(open, 5_000 * failures);
  });
};

if (waiting) {
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  if (feed) {
    const button = element("button", "Announce events", { type: "button" });
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => {
      const on = feed.getAttribute("aria-live") === "off";
      feed.setAttribute("aria-live", on ? "polite" : "off");
      button.setAttribute("aria-pressed", String(on));
    });
    feed.closest(".wide").before(button);
  }
  open();
}
