// Runs in words.
import { html } from "../../lib.js";
import { formatDuration } from "../../core/time.js";
import { plural, reasonWords } from "../../core/words.js";
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
const BAD = new Set(["failed", "timed_out", "interrupted"]);

/** Show how a run or a trace ended. */
export const Outcome = ({ of: { outcome, ended_at: endedAt, error } }) => {
  if (!endedAt) return html`<${Badge} tone="good">under way<//>`;
  return html`<${Badge} tone=${BAD.has(outcome) || (error && !outcome) ? "bad" : ""}>${OUTCOMES[outcome] ?? (error ? "failed" : "ended")}<//>`;
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

/** Return what a run did, from its journal. */
export const journalWords = ({ journal, output }) => {
  if (!journal) return "";
  const tools = journal.tools.map(({ name, calls }) => (calls > 1 ? `${name} ×${calls}` : name)).join(", ");
  const parts = [
    journal.cleared_count && `cleared ${plural(journal.cleared_count, "notification")}`,
    journal.sent_count && `sent ${plural(journal.sent_count, "message")}`,
    tools && `called ${tools}`,
    output && `said “${output.slice(0, 300)}”`,
  ];
  return parts.filter(Boolean).join(" · ");
};
