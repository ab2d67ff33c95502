// Text of tenants: always text, never markup, with its invisible characters made visible.
import { html, useState } from "../lib.js";
import { codePoint, INVISIBLE } from "../core/plain.js";

const FIRST = 2000;
const FURTHER = 50_000;
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
