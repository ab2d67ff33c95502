// Text of tenants, and JSON: always text, never markup, with its invisible characters made visible.
import { html, useState } from "../lib.js";
import { codePoint, INVISIBLE } from "../core/plain.js";
import { CopyButton } from "./basics.js";

const FIRST = 2000;
const FURTHER = 50_000;
const MANY = 100; // entries of JSON
const withMarks = (text) =>
  text.split(INVISIBLE).map((part, index) => (index % 2 ? html`<span class="mark">${codePoint(part)}</span>` : part));

/** Show text on one line, or in a row: at most `max` characters, isolated from the text around it. */
export const Line = ({ value, max = 200 }) => {
  const text = String(value ?? "");
  const cut = text.length > max ? `${text.slice(0, max)}…` : text;
  return html`<bdi class="line">${withMarks(cut)}</bdi>`;
};

/** Show text with its line breaks; more than 2,000 characters appear on request. */
export const Text = ({ value }) => {
  const text = String(value ?? "");
  const [shown, setShown] = useState(FIRST);
  const left = text.length - shown;
  return html`<div class="text">
    <bdi>${withMarks(text.slice(0, shown))}</bdi>
    ${left > 0 &&
    html`<button class="quiet" onClick=${() => setShown(shown + FURTHER)}>
      Show ${Math.min(left, FURTHER).toLocaleString("en")} more of ${text.length.toLocaleString("en")} characters
    </button>`}
  </div>`;
};

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
