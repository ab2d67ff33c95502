// The words for the items of the day lane.
import { formatDuration, formatInstant, localize } from "../../core/time.js";
import { PHASES } from "../../core/words.js";

const MARKS = {
  "notification.created": "notification",
  "notification.cleared": "notification",
  "message.received": "message received",
  "message.sent": "message sent",
  "message.failed": "message not sent",
  "budget.reached": "budget spent",
  "webhook.given_up": "webhook delivery given up",
  "agent.asleep": "sleep begins",
  "agent.queued": "start requested",
};
const AHEAD = {
  wake: "next wake",
  retry: "retry",
  reminder: "reminder",
  cap: "longest sleep ends",
  budget_renewal: "budget renewed",
};
const ACTORS = {
  run: "a run of the agent",
  key: "an API key",
  user: "a person",
  operator: "the operator",
  program: "another program",
  service: "the service",
};

/** Return the name of an item. */
export const wordOf = ({ kind, phase, type }) => {
  if (kind === "band") return PHASES[phase] ?? phase;
  if (kind === "ahead") return AHEAD[type] ?? type;
  return MARKS[type] ?? type.replace(/[._]/g, " ");
};

/** Return who did something, in words. */
export const actorWord = (actor) => ACTORS[actor?.type] ?? "";

/** Return from when to when an item lasted; `present` ends what goes on. */
export const spanWords = (one, zone, present) => {
  const day = formatInstant(one.at, zone, "day");
  const first = `${day} ${formatInstant(one.at, zone, "time")}`;
  const time = (at) => `${formatInstant(at, zone, "day") === day ? "" : `${formatInstant(at, zone, "day")} `}${formatInstant(at, zone, "time")}`;
  if (one.kind === "band") {
    const length = formatDuration(((one.isOpen ? Math.max(one.until, present) : one.until) - one.at) / 1000);
    const start = one.isCutBefore ? `before ${first}` : first;
    if (one.isOpen) return `since ${start} · ${one.isCutBefore ? "more than " : ""}${length}`;
    const isCut = one.isCutBefore || one.isCutAfter;
    return `${start} – ${one.isCutAfter ? "after " : ""}${time(one.until)} · ${isCut ? "more than " : ""}${length}`;
  }
  if (one.kind !== "mark" || !one.type.startsWith("notification.c")) return first;
  const end = one.cleared ? `cleared ${time(one.cleared)}` : "not cleared";
  const due = one.due ? ` · due ${time(one.due)}` : "";
  return `arrived ${first}${due} · ${end}`;
};

/** Return the sentence of an item. */
export const sentenceOf = (one, zone) => {
  if (one.kind === "ahead") return localize(one.because, zone);
  if (one.kind === "band") return one.why ? localize(one.why, zone) : "";
  if (one.data.why) return localize(one.data.why, zone);
  if (one.data.fields) return `Changed: ${one.data.fields.join(", ")}.`;
  if (one.data.error) return one.data.error;
  return "";
};
