// One step in full: read when it is opened, its conversation or tool call first.
import { html } from "../../lib.js";
import { get } from "../../core/api.js";
import { useResource } from "../../core/resource.js";
import { CopyButton, Instant, JsonView, Line, Loaded, Money, Text } from "../../ui/ui.js";
import { length } from "./waterfall.js";

const MAX_PARSED = 200_000; // characters of a text that may be JSON
const MESSAGES = ["gen_ai.input.messages", "gen_ai.output.messages"];
const SECTIONS = {
  "gen_ai.system_instructions": "System instructions",
  "gen_ai.tool.definitions": "Tools that it may call",
  "gen_ai.tool.call.arguments": "Arguments",
  "gen_ai.tool.call.result": "Result",
};
const MAX_MESSAGES = 200;
const FOLDED = 2; // of the sections

const isObject = (value) => value !== null && typeof value === "object";
const objects = (value) => (Array.isArray(value) ? value.filter(isObject) : []);

const parsed = (value) => {
  if (typeof value !== "string" || value.length > MAX_PARSED || !/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
};

const Value = ({ value }) => {
  const shown = parsed(value);
  return isObject(shown) ? html`<${JsonView} value=${shown} />` : html`<${Text} value=${shown} />`;
};

const Part = ({ part: { type, name, ...part } }) => html`
  ${type !== "text" && html`<small>${String(type ?? "").replaceAll("_", " ")} <${Line} value=${name} /></small>`}
  <${Value} value=${part.content ?? part.arguments ?? part.response ?? part.result ?? part} />
`;

const Message = ({ message }) => html`<li class=${message.role === "assistant" ? "run-model" : ""}>
  <b><${Line} value=${message.role} /></b>
  ${objects(message.parts).slice(0, MAX_MESSAGES).map((part) => html`<${Part} part=${part} />`)}
</li>`;

const Contents = ({ metadata }) => {
  if (!isObject(metadata) || Array.isArray(metadata)) return html`<h3>Metadata</h3><${Value} value=${metadata} />`;
  const messages = MESSAGES.flatMap((name) => objects(metadata[name]));
  const shown = messages.slice(-MAX_MESSAGES);
  const title = shown.length < messages.length ? `The last ${MAX_MESSAGES} of ${messages.length} messages` : "Conversation";
  const rest = Object.entries(metadata).filter(([name]) => !MESSAGES.includes(name) && !Object.hasOwn(SECTIONS, name));
  const sections = Object.entries(SECTIONS).map(
    ([name, title], index) =>
      name in metadata && html`<details open=${index >= FOLDED}><summary>${title}</summary><${Value} value=${metadata[name]} /></details>`,
  );
  return html`
    ${sections}
    ${messages.length > 0 && html`<h3>${title}</h3><ol>${shown.map((message) => html`<${Message} message=${message} />`)}</ol>`}
    <h3>Metadata</h3><${JsonView} value=${Object.fromEntries(rest)} />
  `;
};

const Full = ({ span, zone }) => html`
  <dl class="facts">
    <dt>Started</dt><dd><${Instant} at=${span.started_at} zone=${zone} style="full" /></dd>
    ${span.input_tokens !== null &&
    html`<dt>Tokens</dt><dd>${span.input_tokens} in, ${span.cached_tokens ?? 0} of them cached, ${span.output_tokens ?? 0} out</dd>`}
    ${span.cost_usd !== null && html`<dt>Cost</dt><dd><${Money} amount=${span.cost_usd} /></dd>`}
    <dt>Id</dt><dd><code>${span.id}</code> <${CopyButton} text=${span.id} /></dd>
  </dl>
  ${span.error && html`<div class="run-error"><h3>Error</h3><${Text} value=${span.error} /></div>`}
  <${Contents} metadata=${span.metadata} />
`;

/** Show a span with its metadata; one that was open is read again when it has ended. */
export const Detail = ({ spans, index, zone, close }) => {
  const id = spans.ids[index];
  const us = spans.durations_us[index];
  const span = useResource((signal) => get(`/api/tracing/spans/${id}/`, {}, signal), [id, us]);
  const keep = (event) => event.key.startsWith("Arrow") && event.stopPropagation();
  return html`<aside class="card run-detail" aria-label="Step" tabindex="0" onKeyDown=${keep}>
    <div class="split">
      <h2><${Line} value=${spans.names[index]} /></h2>
      <button class="quiet" aria-label="Close" onClick=${close}>✕</button>
    </div>
    <p class="muted"><${Line} value=${spans.span_types[index]} />, ${us === null ? "open" : length(us)}</p>
    <${Loaded} of=${span}>${(data) => html`<${Full} key=${id} span=${data} zone=${zone} />`}<//>
  </aside>`;
};
