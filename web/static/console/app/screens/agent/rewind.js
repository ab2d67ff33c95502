// Rewind: a day that is over, as it was and as it would have been under other settings. Nothing is stored.
import { html, useState } from "../../lib.js";
import { post } from "../../core/api.js";
import { formatInput, formatInstant, money, plural, reasonWords } from "../../core/words.js";
import { Button, DateField } from "../../ui/ui.js";
import { Refusal } from "./preview.js";

const WIDTH = 1000;
const DAY_MS = 86_400_000;
const SETTINGS = [
  { name: "debounce_window_seconds", label: "Debounce window in seconds", type: "number", min: 0 },
  { name: "quiet_hours", label: "Quiet hours", placeholder: "22:00-07:00" },
  { name: "max_wakes_per_hour", label: "Wakes an hour at most", type: "number", min: 1 },
  { name: "max_wakes_per_day", label: "Wakes a day at most", type: "number", min: 1 },
  { name: "max_cost_usd_per_day", label: "USD a day at most", type: "number", min: 0, step: "any" },
];

const patchOf = (values) =>
  Object.fromEntries(SETTINGS.filter(({ name }) => values[name]).map(({ name, type }) => [name, type ? Number(values[name]) : values[name]]));

/** Ask for a day of the agent, from midnight to midnight in its zone, or to now. */
const ask = (agent, day, values) => {
  const next = new Date(Date.parse(day) + DAY_MS).toISOString().slice(0, 10);
  const isToday = formatInput(Date.now(), agent.timezone).startsWith(day);
  const to = isToday ? new Date().toISOString() : `${next}T00:00`;
  return post("/api/cloud/rewind/", { agent: agent.id, from: `${day}T00:00`, to, patch: patchOf(values) });
};

const Day = ({ title, course, from, to, zone }) => {
  const x = (at) => ((Date.parse(at) - from) / (to - from)) * WIDTH;
  const said = `${plural(course.wakes, "wake")}, ${money(course.cost_usd)}${course.waiting ? `, ${course.waiting} still waiting` : ""}`;
  return html`<figure class="what-axis">
    <figcaption><b>${title}</b> <small>${said}</small></figcaption>
    <svg viewBox="0 0 ${WIDTH} 34" preserveAspectRatio="none" role="img" aria-label="${title}: ${said}">
      <line class="what-line" x1="0" x2=${WIDTH} y1="17" y2="17" />
      ${course.bands.map(({ start, end, reason }, index) => html`<rect key=${index} class="rewind-run" x=${x(start)} width=${Math.max(2, x(end) - x(start))} y="5" height="24"><title>${formatInstant(start, zone)}, ${reasonWords(reason)}</title></rect>`)}
    </svg>
    <div class="rewind-hours" aria-hidden="true">${[0, 6, 12, 18, 24].map((hour) => html`<small key=${hour}>${hour}:00</small>`)}</div>
  </figure>`;
};

/** Show the panel that replays a day under other settings. */
export default ({ agent }) => {
  const [day, setDay] = useState(formatInput(Date.now() - DAY_MS, agent.timezone).slice(0, 10));
  const [values, setValues] = useState({});
  const [{ answer, error, span }, setState] = useState({});
  const rewind = () =>
    ask(agent, day, values).then(
      (found) => {
        const from = Date.parse(found.start);
        setState({ answer: found, span: { from, to: from + DAY_MS, zone: agent.timezone } });
      },
      (refusal) => setState({ error: refusal }),
    );
  return html`<section class="what" aria-label="Rewind">
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <label>Day <${DateField} value=${day} change=${setDay} /></label>
      ${SETTINGS.map(({ name, label, ...rest }) => html`<label key=${name}>
        ${label} <input value=${values[name] ?? ""} placeholder="as it is" onInput=${(event) => setValues({ ...values, [name]: event.target.value })} ...${rest} />
      </label>`)}
      <${Button} kind="primary" run=${rewind}>Rewind<//>
    </form>
    <small>The day is replayed by the rules, with the arrivals and the lengths of runs of the event log. Nothing is sent.</small>
    <div class="card what-answer" role="status">
      <${Refusal} error=${error} />
      ${answer &&
      html`<p>${answer.summary}</p>
        <${Day} title="As it was" course=${answer.recorded} ...${span} />
        <${Day} title="Under these settings" course=${answer.rewound} ...${span} />
        <ul class="muted">${answer.assumed.map((sentence) => html`<li key=${sentence}>${sentence}</li>`)}</ul>`}
    </div>
  </section>`;
};
