// The words for the values of the API.
export const PHASES = {
  asleep: "asleep",
  holding: "holding",
  queued: "queued",
  running: "running",
  stopping: "stopping",
  backing_off: "backing off",
  quarantined: "quarantined",
  over_budget: "over budget",
  paused: "paused",
  archived: "archived",
  unknown: "unknown",
  mixed: "mixed",
};

const REASONS = {
  run_requested: "a run was requested",
  reminder: "a reminder fell due",
  sleep_elapsed: "its sleep ended",
  restart_recovery: "the service had restarted",
  retry_after_failure: "a retry after a failure",
  uncleared_notifications: "uncleared notifications were left",
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

/** Return a count with its noun: `plural(2, "run")` is "2 runs". */
export const plural = (count, noun, nouns = `${noun}s`) => `${count.toLocaleString("en")} ${count === 1 ? noun : nouns}`;

/** Return an amount of US dollars with as many digits as it needs. */
export const money = (amount) => {
  const value = Number(amount ?? 0);
  const digits = value === 0 || value >= 1 ? 2 : value >= 0.01 ? 3 : 6;
  return `$${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: digits })}`;
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
