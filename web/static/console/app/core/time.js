// Instants as the reader wants them: in the agent's zone, in UTC, or in the browser's zone.
import { html, signal } from "../lib.js";

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
