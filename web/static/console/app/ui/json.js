// JSON to read: folded where it is long, rendered when it is opened.
import { html, useState } from "../lib.js";
import { CopyButton } from "./basics.js";
import { Text } from "./text.js";

const MANY = 100;

const Branch = ({ name, value, depth }) => {
  const entries = Object.entries(value);
  const [isOpen, setOpen] = useState(depth < 2 && entries.length <= 20);
  const [shown, setShown] = useState(MANY);
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  return html`<details open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>${name !== undefined && html`<bdi class="json-name">${name}</bdi>`} <span class="muted">${size}</span></summary>
    ${isOpen &&
    html`<div class="json-branch">
      ${entries.slice(0, shown).map(([key, one]) => html`<${Node} key=${key} name=${key} value=${one} depth=${depth + 1} />`)}
      ${entries.length > shown &&
      html`<button class="quiet" onClick=${() => setShown(shown + MANY)}>Show more of ${entries.length}</button>`}
    </div>`}
  </details>`;
};

const Node = ({ name, value, depth }) => {
  if (value !== null && typeof value === "object") return html`<${Branch} name=${name} value=${value} depth=${depth} />`;
  const shown = typeof value === "string" ? html`<${Text} value=${value} />` : html`<code>${String(value)}</code>`;
  return html`<div class="json-leaf">
    ${name !== undefined && html`<bdi class="json-name">${name}</bdi>`} ${shown}
  </div>`;
};

/** Show a JSON value as a tree, with a button that copies it. */
export const JsonView = ({ value }) => html`<div class="json">
  <${CopyButton} text=${() => JSON.stringify(value, null, 2)} label="Copy JSON" />
  <${Node} value=${value} depth=${0} />
</div>`;
