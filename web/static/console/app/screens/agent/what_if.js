// What if: choose what comes and when, and read what the agent would do. Nothing is sent to the agent.
import { html, useState } from "../../lib.js";
import { useEvents } from "../../core/live.js";
import { query, setQuery } from "../../core/router.js";
import { formatInput, formatInstant, sourceWord } from "../../core/words.js";
import { DateField, QueryChoice } from "../../ui/ui.js";
import { Outlook, Refusal, usePreview } from "./preview.js";

const SOURCES = ["sms", "email", "mms", "api", "portal", "system", "subagent", "browser", "agent"];
const NAMES = ["event", "priority", "count", "apart", "due", "at", "window"];
const WIDTH = 1000;
const DAY_MS = 86_400_000;

/** Return the milliseconds of a local time such as 2026-11-20T10:28 in a zone. */
const instantOf = (text, zone) => {
  const asUtc = Date.parse(`${text}Z`);
  return asUtc - (Date.parse(`${formatInput(asUtc, zone)}Z`) - asUtc);
};
const presets = (zone) => [
  ["A text now", {}],
  ["Five texts in a row", { count: "5", apart: "2" }],
  ["An API call", { event: "api" }],
  ["A low priority", { event: "api", priority: "low" }],
  ["A text this time tomorrow", { at: formatInput(Date.now() + DAY_MS, zone) }],
  ["Nothing for a day", { event: "none", at: formatInput(Date.now() + DAY_MS, zone) }],
];

const choose = (changes) => setQuery({ ...Object.fromEntries(NAMES.map((name) => [name, null])), ...changes }, { replace: true });

const questionOf = ({ event = "sms", priority = "high", count = "1", apart = "0", due, at, window: seconds }) => ({
  event: event === "none" ? null : { source: event, priority, count: Number(count), seconds_apart: Number(apart), scheduled_for: due || null },
  patch: seconds ? { debounce_window_seconds: Number(seconds) } : null,
  at: at || null,
});

const Input = ({ label, name, ...rest }) => html`<label>
  ${label}
  <input value=${query.value[name] ?? rest.usual ?? ""} onInput=${(event) => setQuery({ [name]: event.target.value }, { replace: true })} ...${rest} />
</label>`;

const Question = ({ zone }) => {
  const isEvent = query.value.event !== "none";
  const moment = (label, name) => html`<label>
    ${label} <${DateField} type="moment" value=${query.value[name]} change=${(at) => setQuery({ [name]: at }, { replace: true })} />
  </label>`;
  return html`<div class="filters" role="group" aria-label="Examples">
      ${presets(zone).map(([label, values]) => html`<button type="button" onClick=${() => choose(values)}>${label}</button>`)}
    </div>
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <${QueryChoice} label="What comes" name="event" value=${query.value.event ?? "sms"} options=${[["none", "nothing"], ...SOURCES.map((one) => [one, sourceWord(one)])]} />
      ${isEvent &&
      html`<${QueryChoice} label="Priority" name="priority" value=${query.value.priority ?? "high"} options=${[["high", "high"], ["low", "low"]]} />
        <${Input} label="How many" name="count" type="number" min="1" max="100" usual="1" />
        <${Input} label="Seconds apart" name="apart" type="number" min="0" max="3600" usual="0" />
        ${moment("Reminder for", "due")}`}
      ${moment(isEvent ? "Comes at" : "Until", "at")}
      <${Input} label="With a debounce window of" name="window" type="number" min="0" placeholder="as it is" />
    </form>
    <small>Times are in the agent's zone, ${zone}. Nothing is sent: the rules are run on a copy of the agent.</small>`;
};

const moments = ({ event, at }, { data: { now, then }, askedAt }, zone) => {
  const first = Math.max(askedAt, at ? instantOf(at, zone) : 0);
  const { count = 0, seconds_apart: apart = 0 } = event ?? {};
  const arrivals = Array.from({ length: Math.min(count, 100) }, (_, index) => ({ at: first + index * apart * 1000, kind: "arrival" }));
  const isStarted = then.phase === "running" && now.phase !== "running";
  const wake = isStarted ? (arrivals.at(-1)?.at ?? first) : then.next_wake && Date.parse(then.next_wake.at);
  return [{ at: askedAt, kind: "now" }, ...arrivals, ...(wake ? [{ at: wake, kind: "wake" }] : [])];
};

const Axis = ({ question, answer, zone }) => {
  const all = moments(question, answer, zone);
  const first = all[0].at;
  const span = Math.max(...all.map(({ at }) => at)) - first || 60_000;
  const x = (at) => 20 + ((at - first) / (span * 1.05)) * (WIDTH - 40);
  const words = all
    .filter(({ kind }) => kind !== "arrival")
    .map(({ at, kind }) => `${kind === "now" ? "now" : "wakes"} ${formatInstant(new Date(at).toISOString(), zone)}`);
  return html`<figure class="what-axis">
    <svg viewBox="0 0 ${WIDTH} 34" preserveAspectRatio="none" role="img" aria-label="On a line: ${words.join(", ")}">
      <line class="what-line" x1="0" x2=${WIDTH} y1="17" y2="17" />
      ${all.map(({ at, kind }, index) => html`<line key=${index} class="what-${kind}" x1=${x(at)} x2=${x(at)} y1=${kind === "arrival" ? 9 : 3} y2=${kind === "arrival" ? 25 : 31} />`)}
    </svg>
    <figcaption>
      ${words.map((one, index) => html`<span key=${index} class=${index ? "what-key-wake" : "what-key-now"}>${one}</span>`)}
      ${question.event && html`<span class="what-key-arrival">what comes</span>`}
    </figcaption>
  </figure>`;
};

/** Show the panel that answers what would happen to an agent. */
export default ({ agent }) => {
  const [version, setVersion] = useState(0);
  useEvents(["agent.*", "run.*", "notification.*"], () => setVersion((old) => old + 1), agent.id);
  const question = questionOf(query.value);
  const answer = usePreview(agent, question, version);
  const zone = agent.timezone;
  return html`<section class="what" aria-label="What if">
    <${Question} zone=${zone} />
    <div class="card what-answer">
      <${Refusal} error=${answer.error} />
      ${answer.data &&
      html`<div class="what-states" role="status">
          <${Outlook} title="Now" outlook=${answer.data.now} zone=${zone} />
          <${Outlook} title="Then" outlook=${answer.data.then} zone=${zone} />
        </div>
        <${Axis} question=${question} answer=${answer} zone=${zone} />`}
    </div>
  </section>`;
};
