// The words for the values of the API, and its instants as the reader wants them.
import { html, signal } from "../lib.js";

// Characters that cannot be seen, or that change the order of others: they can make text look like other text.
// Control characters, marks of direction, characters without a width, tags.
export const INVISIBLE =
  /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}])/u;

/** Return the name of a character, such as U+202E. */
export const codePoint = (character) => `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** Return text for places that take no elements, such as options and titles: the names stand for the characters. */
export const plain = (value) =>
  String(value ?? "").split(INVISIBLE).map((part, index) => (index % 2 ? codePoint(part) : part)).join("");

export const PHASES = {
  asleep: "asleep",
  holding: "holding",
  queued: "queued",
  running: "running",
  stopping: "stopping",
  backing_off: "backing off",
  quarantined: "quarantined",
  over_budget: "over budget",
  held_by_limits: "held by limits",
  paused: "paused",
  archived: "archived",
  unknown: "unknown",
  not_yet: "did not exist yet",
  mixed: "mixed",
};

const REASONS = {
  run_requested: "a request for a run",
  reminder: "a reminder",
  sleep_elapsed: "the end of its sleep",
  restart_recovery: "a restart of the service",
  retry_after_failure: "a retry after a failure",
  uncleared_notifications: "notifications that were left uncleared",
};

/** The sources of notifications in words. */
export const SOURCES = {
  email: "e-mail",
  sms: "SMS",
  mms: "iMessage or RCS",
  system: "system",
  agent: "agent",
  subagent: "other agent",
  browser: "browser",
  api: "API",
  portal: "console",
};

/** Return the word for the source of a notification. */
export const sourceWord = (source) => SOURCES[source] ?? source;

/** Return a wake reason in words: `notification:sms` is "a notification (SMS)". */
export const reasonWords = (reason) => {
  if (!reason) return "";
  if (reason.startsWith("notification:")) return `a notification (${sourceWord(reason.slice(13))})`;
  return REASONS[reason] ?? reason.replaceAll("_", " ");
};

/** Return what to say of a notification that is written, if it is a reminder that wakes nobody, else null. */
export const reminderHint = (priority, at) => (priority === "low" && at ? "It will not wake the agent: its priority is low." : null);

/** Return a count with its noun: `plural(2, "run")` is "2 runs". */
export const plural = (count, noun, nouns = `${noun}s`) => `${count.toLocaleString("en")} ${count === 1 ? noun : nouns}`;

/** Return an amount of US dollars with as many digits as it needs. */
export const money = (amount) => {
  const value = Number(amount ?? 0);
  const digits = value === 0 || value >= 1 ? 2 : value >= 0.01 ? 3 : 6;
  return `$${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: digits })}`;
};

/** Return a cost in words: of calls without a known price, only the others are part of it. */
export const costWords = (amount, unpriced = 0) => {
  if (!unpriced) return money(amount);
  return Number(amount) ? `at least ${money(amount)}` : "not priced";
};

/** Return an address that may become a link, or null: only http and https. */
export const safeUrl = (text) => {
  try {
    const url = new URL(text);
    return ["http:", "https:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
};

// Instants as the reader wants them: in the agent's zone, in UTC, or in the browser's zone.

const KEY = "hostsvc.zone";
const DAY_MS = 86_400_000;
const INSTANT = /(\d{4}-\d\d-\d\d) (\d\d:\d\d(?::\d\d)?) UTC/g;

/** The chosen zone: `agent`, `utc` or `local`. */
export const zone = signal(localStorage.getItem(KEY) ?? "agent");
/** The present moment in milliseconds, each second. */
export const now = signal(Date.now());
setInterval(() => (now.value = Date.now()), 1000);

/** Choose the zone in which all times are shown. */
export const chooseZone = (value) => {
  zone.value = value;
  localStorage.setItem(KEY, value);
};

/** Return the IANA name of the zone to show the times of an agent in. */
export const zoneName = (agentZone) => {
  if (zone.value === "utc") return "UTC";
  return (zone.value === "agent" && agentZone) || Intl.DateTimeFormat().resolvedOptions().timeZone;
};

const formatters = new Map();
const formatter = (timeZone) => {
  if (!formatters.has(timeZone)) {
    let chosen = timeZone;
    try {
      Intl.DateTimeFormat("sv", { timeZone });
    } catch {
      chosen = "UTC";
    }
    const options = { timeZone: chosen, dateStyle: "short", timeStyle: "medium" };
    const short = new Intl.DateTimeFormat("en-GB", { timeZone: chosen, timeZoneName: "short" });
    formatters.set(timeZone, { date: new Intl.DateTimeFormat("sv-SE", options), short });
  }
  return formatters.get(timeZone);
};

/** Return an instant as "2026-11-20 10:28:33" in a named zone. */
export const formatIn = (instant, timeZone) => formatter(timeZone).date.format(new Date(instant));

const zoneAbbreviation = (instant, timeZone) =>
  formatter(timeZone).short.formatToParts(new Date(instant)).find((part) => part.type === "timeZoneName")?.value ?? "";

/** Return an instant as text: `style` is `full` (date, time, zone), `time`, `day`, or `short` (no date if today). */
export const formatInstant = (instant, agentZone, style = "short") => {
  const name = zoneName(agentZone);
  const text = formatIn(instant, name);
  if (style === "full") return `${text} ${zoneAbbreviation(instant, name)}`;
  if (style === "time") return text.slice(11);
  if (style === "day") return text.slice(0, 10);
  return text.slice(0, 10) === formatIn(Date.now(), name).slice(0, 10) ? text.slice(11) : text.slice(0, 16);
};

/** Show an instant; its title has the date, the seconds and the zone. */
export const Instant = ({ at, zone: agentZone, style }) =>
  at
    ? html`<time datetime=${at} title=${formatInstant(at, agentZone, "full")}>${formatInstant(at, agentZone, style)}</time>`
    : html`<span class="muted">–</span>`;

/** Return an instant as inputs take it, such as "2026-11-20T10:28:33". */
export const formatInput = (instant, timeZone) => formatIn(instant, timeZone).replace(" ", "T");

/** Return the UTC day of an instant in milliseconds, such as "2026-11-22". */
export const utcDay = (milliseconds) => new Date(milliseconds).toISOString().slice(0, 10);

/** Return the day that comes `count` days after a day. */
export const dayAfter = (day, count = 1) => utcDay(Date.parse(day) + count * DAY_MS);

/** Return a duration in words: "850 ms", "12 s", "3 min 5 s", "2 h 10 min", "4 d 3 h". */
export const formatDuration = (seconds) => {
  if (seconds == null) return "–";
  const size = Math.abs(seconds);
  if (size < 1) return `${Math.round(size * 1000)} ms`;
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const whole = size < 10 ? Math.round(size * 10) / 10 : Math.round(size);
  if (whole < 60) return `${whole} s`;
  const index = units.findIndex(([, length]) => whole >= length);
  const [unit, length] = units[index];
  const [nextUnit, nextLength] = units[index + 1];
  const first = Math.floor(whole / length);
  const second = Math.floor((whole % length) / nextLength);
  return second ? `${first} ${unit} ${second} ${nextUnit}` : `${first} ${unit}`;
};

/** Show how long something takes, in words. */
export const Duration = ({ seconds }) => html`<span>${formatDuration(seconds)}</span>`;

/** Show the time from or to an instant, such as "in 3 min 5 s" or "2 h ago"; it moves with the clock. */
export const Relative = ({ at }) => {
  const seconds = (Date.parse(at) - now.value) / 1000;
  const text = formatDuration(Math.round(Math.abs(seconds)) || 0.4);
  const words = Math.abs(seconds) < 1 ? "now" : seconds > 0 ? `in ${text}` : `${text} ago`;
  return html`<time datetime=${at} title=${formatInstant(at, null, "full")}>${words}</time>`;
};

/** Return a sentence of the service with its UTC times in the chosen zone. */
export const localize = (sentence, agentZone) =>
  sentence.replace(INSTANT, (_, day, time) => {
    const text = formatInstant(`${day}T${time.length === 5 ? `${time}:00` : time}Z`, agentZone, "full");
    return time.length === 5 ? text.replace(/:\d\d /, " ") : text;
  });
