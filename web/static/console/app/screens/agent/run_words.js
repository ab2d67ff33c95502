// Runs in words.
import { html } from "../../lib.js";
import { formatDuration, plural, reasonWords } from "../../core/words.js";
import { Badge } from "../../ui/ui.js";

export const OUTCOMES = {
  slept: "slept again",
  ended: "ended",
  turn_limit: "reached its turn limit",
  failed: "failed",
  stopped: "was stopped",
  timed_out: "took too long",
  budget: "spent the budget",
  interrupted: "was interrupted",
};
const TONES = { slept: "", ended: "open", turn_limit: "warn", stopped: "warn", budget: "warn" };

const toneOf = (outcome, error) => (outcome ? (TONES[outcome] ?? "bad") : error ? "bad" : "open");

/** Show how a run or a trace ended. */
export const Outcome = ({ of: { outcome, ended_at: endedAt, error } }) => {
  if (!endedAt) return html`<${Badge} tone="good">under way<//>`;
  return html`<${Badge} tone=${toneOf(outcome, error)}>${OUTCOMES[outcome] ?? (error ? "failed" : "ended")}<//>`;
};

/** Return how many seconds a run took, or has taken so far. */
export const secondsOf = (run, present = Date.now()) =>
  ((run.ended_at ? Date.parse(run.ended_at) : present) - Date.parse(run.started_at)) / 1000;

/** Return how a run went, in a sentence. */
export const outcomeWords = (run) => {
  const why = `woken by ${reasonWords(run.wake_reason)}`;
  if (!run.outcome) return `under way, ${why}`;
  const error = run.error && run.outcome !== "stopped" ? `: ${run.error.slice(0, 200)}` : "";
  const length = `${formatDuration(secondsOf(run))}, ${plural(run.turns, "turn")}`;
  return `${why}; it ${OUTCOMES[run.outcome]} after ${length}${error}`;
};

const toolWords = ({ name, calls, errors }) => {
  const times = calls > 1 ? `${name} ×${calls}` : name;
  return errors ? `${times} (${errors === calls ? "failed" : `${errors} failed`})` : times;
};

/** Return what a run did, from its journal. */
export const journalWords = ({ journal, output }) => {
  if (!journal) return "";
  const tools = journal.tools.map(toolWords).join(", ");
  const parts = [
    journal.cleared_count && `cleared ${plural(journal.cleared_count, "notification")}`,
    journal.sent_count && `sent ${plural(journal.sent_count, "message")}`,
    journal.failed_count && `could not send ${plural(journal.failed_count, "message")}`,
    tools && `called ${tools}`,
    output && `said “${output.slice(0, 300)}”`,
  ];
  return parts.filter(Boolean).join(" · ");
};
