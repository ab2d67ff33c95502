// The settings of an agent: what it has of its own and what its template passes on, and what a change would do.
import { html, useEffect, useRef, useState } from "../../lib.js";
import { get, patch } from "../../core/api.js";
import { useResource } from "../../core/live.js";
import { formatInput } from "../../core/words.js";
import { changesOf, Failure, Field, Form, Line, Loading, namesOf, readForm, toast } from "../../ui/ui.js";
import { listOf, Outlook, Refusal, usePreview } from "./preview.js";

const options = (...values) => values.map((one) => [one, one.replaceAll("_", " ")]);
const EFFORTS = options("none", "minimal", "low", "medium", "high", "xhigh");

// `from`: the template's field that counts while the agent's own is `blank`.
const GROUPS = [
  {
    title: "When it wakes",
    fields: [
      { name: "template", label: "Template", blank: null },
      { name: "debounce_window_seconds", label: "Debounce window, in seconds", type: "number", blank: null, from: "debounce_window_seconds", fallback: 0, help: "How long a conversation must pause before it wakes the agent. 0: at once." },
      { name: "max_cost_usd_per_day", label: "Cap in US dollars a day", type: "number", blank: null, from: "max_cost_usd_per_day", fallback: "no cap", help: "Days are those of UTC. 0 allows no run." },
      { name: "max_wakes_per_hour", label: "Wakes in an hour, at most", type: "number", blank: null, from: "max_wakes_per_hour", fallback: "no limit" },
      { name: "max_wakes_per_day", label: "Wakes in a day, at most", type: "number", blank: null, from: "max_wakes_per_day", fallback: "no limit", help: "Of its time zone. Run requests and urgent notifications wake it all the same." },
      { name: "quiet_hours", label: "Quiet hours", blank: null, from: "quiet_hours", fallback: "none", help: "Such as 22:00-07:00 or Mon-Fri 22:00-07:00, in its time zone." },
      { name: "unpriced", label: "Models without a known price", type: "select", options: [["refuse", "refuse, if there is a cap"], ["allow", "allow, as free"]], blank: null, from: "unpriced", fallback: "refuse" },
      { name: "max_sleep_hours", label: "Longest sleep, in hours", type: "number", blank: null, help: "Counted from the start of a run; blank: no limit." },
      { name: "sleep_until", label: "Asleep until", type: "datetime", blank: null, help: "In the agent's time zone, such as 2026-11-23 09:00; blank: as long as it may." },
      { name: "timezone", label: "Time zone", },
    ],
  },
  {
    title: "How it thinks",
    fields: [
      { name: "model", label: "Model", help: "As provider/name, such as openai/gpt-5." },
      { name: "system_prompt", label: "Instructions", type: "textarea", rows: 8, blank: "", from: "system_prompt", fallback: "none" },
      { name: "reasoning_effort", label: "Reasoning effort", type: "select", options: EFFORTS, blank: "", from: "default_reasoning_effort", fallback: "none" },
      { name: "max_turns", label: "Turns of a run", type: "number", blank: 0, from: "max_turns", fallback: "the service's limit", help: "A negative number: no limit." },
      { name: "harness_git_ref", label: "Branch, tag or commit of its code", blank: null, from: "harness_git_ref", fallback: "the newest main" },
      { name: "language", label: "Language of searches", blank: "", help: "Such as english; blank: words are found only as they are written." },
    ],
  },
  {
    title: "Who it is",
    fields: [
      { name: "name", label: "Name", required: true },
      { name: "tags", label: "Tags", type: "list", rows: 2, help: "One in each line." },
      { name: "purpose", label: "Purpose", type: "select", options: options("production", "eval", "dev"), required: true },
      { name: "email_alias", label: "E-mail alias", blank: null, help: "The part before the @; unique in the service." },
      { name: "parent", label: "Parent", blank: null, help: "The id of the agent that it works for." },
      { name: "call_voice_id", label: "Voice of calls", blank: "", help: "Only stored." },
    ],
  },
];
const FIELDS = GROUPS.flatMap(({ fields }) => fields);
const PREVIEWED = ["template", "debounce_window_seconds", "max_cost_usd_per_day", "max_wakes_per_hour", "max_wakes_per_day", "quiet_hours", "max_sleep_hours", "sleep_until"];
const WITH_TEXT = ["template", "debounce_window_seconds"];
const TEXT = { source: "sms", priority: "high" };

const shown = ({ name, blank }, agent) => {
  const value = agent[name];
  if (value === blank) return "";
  if (name === "sleep_until" && value) return formatInput(value, agent.timezone).replace("T", " ");
  return Array.isArray(value) ? value.join("\n") : value;
};

const withBlanks = (values) =>
  Object.fromEntries(FIELDS.map(({ name, blank }) => [name, blank !== undefined && (values[name] === "" || values[name] == null) ? blank : values[name]]));

/** Return the stored values, in the form in which `readForm` returns those of the page. */
const storedValues = (agent) => {
  const inForm = ({ name, type }) => {
    const value = agent[name];
    if (type === "list") return listOf(value);
    if (type === "datetime") return shown({ name }, agent);
    if (typeof value !== "string") return value;
    return type === "textarea" ? value.replace(/\r\n?/g, "\n") : value.replace(/[\r\n]/g, "");
  };
  return { ...withBlanks(Object.fromEntries(FIELDS.map((field) => [field.name, inForm(field)]))), adapters: [...agent.adapters] };
};

const inheritedBy = (field, template) => {
  const value = template?.[field.from];
  return String(value == null || value === "" || value === 0 ? (field.fallback ?? value) : value);
};

const Origin = ({ field, value, template, inherited, clear }) => {
  const from = template ? "the template" : "the service";
  if (value === field.blank) return html`<span class="badge">inherited from ${from}</span> `;
  return html`<span class="badge warn">overrides ${from}: <${Line} value=${inherited} max=${60} /></span>
    <button type="button" class="quiet" onClick=${clear}>Inherit<span class="hidden"> ${field.label}</span></button> `;
};

const Setting = ({ field, agent, values, template, templates, form }) => {
  const { help, blank, from, fallback, ...rest } = field;
  const clear = () => {
    const input = form.current.elements[field.name];
    input.value = "";
    input.dispatchEvent(new Event("input", { bubbles: true }));
    input.focus();
  };
  const inherited = from && inheritedBy(field, template);
  if (field.name === "template") {
    rest.type = "select";
    rest.options = [["", "none"], ...namesOf(templates)];
  } else if (from && rest.type === "select") rest.options = [["", `inherit (${inherited})`], ...rest.options];
  else if (from) rest.placeholder = inherited;
  const origin = from && html`<${Origin} ...${{ field, value: values[field.name], template, inherited, clear }} />`;
  const versions = field.name === "system_prompt" && html`<a href="/console/agents/${agent.id}/prompts">Versions</a>`;
  return html`<${Field} ...${rest} value=${shown(field, agent)} help=${(origin || help) && html`${origin}${versions}<span>${help}</span>`} />`;
};

const Adapters = ({ adapters, chosen, choose }) => html`<fieldset class="settings-adapters">
  <legend>Adapters</legend>
  ${adapters.map(({ id, name }) => {
    const toggle = () => choose(chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id]);
    return html`<label class="check"><input type="checkbox" checked=${chosen.includes(id)} onChange=${toggle} /> <${Line} value=${name} max=${60} /></label>`;
  })}
  ${!adapters.length && html`<small>There is none. <a href="/console/tools">Add an adapter</a> to give agents tools.</small>`}
</fieldset>`;

const Effect = ({ agent, changes }) => {
  const changed = Object.fromEntries(PREVIEWED.filter((name) => name in changes).map((name) => [name, changes[name]]));
  const names = Object.keys(changed);
  const event = names.some((name) => WITH_TEXT.includes(name)) ? TEXT : null;
  const without = usePreview(agent, names.length ? { event } : null).data;
  const { data: after, error } = usePreview(agent, names.length ? { patch: changed, event } : null);
  const count = Object.keys(changes).length;
  return html`<aside class="card settings-effect" aria-label="Effect of the change">
    <h2>What if you save?</h2>
    ${event && html`<p class="muted">If a text came now:</p>`}
    <${Refusal} error=${error} />
    ${without && html`<${Outlook} title="As it is" outlook=${without.then} zone=${agent.timezone} />`}
    ${after && html`<${Outlook} title="With the change" outlook=${after.then} zone=${agent.timezone} />`}
    ${after?.bounds_raised && html`<p class="hint" role="status">This raises what it may do at most: ${after.bounds_raised.replaceAll("_", " ").replaceAll("=", " ")}.</p>`}
    ${names.length === 0 &&
    html`<p class="muted">${count ? "This does not change when the agent wakes." : "Change the debounce window, the cap, a limit or the sleep, and its effect appears here before you save it."}</p>`}
    <p><a href="/console/agents/${agent.id}/what-if">Ask about other events</a></p>
  </aside>`;
};

const Editor = ({ agent, reload, templates, adapters, edited }) => {
  const box = useRef(null);
  const form = { get current() { return box.current.querySelector("form"); } };
  const [typed, setTyped] = useState(null);
  const [toggled, toggle] = useState(null);
  const stored = storedValues(agent);
  const chosen = toggled ?? stored.adapters;
  const values = { ...(typed ?? stored), adapters: chosen };
  const changes = changesOf(values, stored);
  edited.current = Object.keys(changes).length > 0;
  const read = () => withBlanks(readForm(form.current));
  // Fields that nobody has touched follow a change by somebody else.
  useEffect(() => typed && setTyped(read()), [agent]);
  const template = templates.find(({ id }) => id === values.template);
  const path = `/api/cloud/agents/${agent.id}/`;
  const save = async () => {
    const latest = changesOf({ ...read(), adapters: chosen }, stored);
    const names = Object.keys(latest);
    if (!names.length) return toast("Nothing has changed.");
    const old = Object.fromEntries(names.map((name) => [name, agent[name]]));
    await patch(path, latest);
    await reload();
    toast("Saved.", { undo: () => patch(path, old).then(reload) });
  };
  const sections = GROUPS.map(
    ({ title, fields }) => html`<section class="card">
      <h2>${title}</h2>
      <div class="settings-fields">
        ${fields.map((field) => html`<${Setting} key=${field.name} ...${{ field, agent, values, template, templates, form }} />`)}
      </div>
      ${title === "How it thinks" && html`<${Adapters} adapters=${adapters} chosen=${chosen} choose=${toggle} />`}
    </section>`,
  );
  return html`<div class="columns settings" ref=${box}>
    <${Form} save=${save} submit="Save changes" onInput=${() => setTyped(read())}>
      ${sections}
    <//>
    <${Effect} agent=${agent} changes=${changes} />
  </div>`;
};

/** Show the settings of an agent, with what is inherited and what a change would do. */
export default ({ agent, reload = agent.reload }) => {
  const lists = useResource(
    (signal) => Promise.all([get("/api/templates/", { limit: 1000 }, signal), get("/api/toolbox/adapters/", { limit: 1000 }, signal)]),
    [agent.organization],
  );
  const edited = useRef(false);
  const shownAs = useRef("");
  // A change by somebody else shows at once, unless that would undo what is being typed.
  if (!edited.current) shownAs.current = JSON.stringify([agent.adapters, ...FIELDS.map(({ name }) => agent[name])]);
  const { data, error } = lists;
  if (error && !data) return html`<${Failure} error=${error} retry=${lists.reload} />`;
  if (!data) return html`<${Loading} />`;
  const own = (all) => all.filter((one) => (one.organization ?? agent.organization) === agent.organization);
  return html`<${Editor} key=${shownAs.current} edited=${edited} agent=${agent} reload=${reload} templates=${own(data[0])} adapters=${data[1]} />`;
};
