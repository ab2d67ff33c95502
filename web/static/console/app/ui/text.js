// Text of tenants: always text, never markup, with its invisible characters made visible.
import { html, useState } from "../lib.js";

const FIRST = 2000;
const FURTHER = 50_000;
// Control characters, bidirectional marks, zero-width characters, tags: all can make text look like other text.
const INVISIBLE =
  /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}])/u;
const name = (character) => `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

const withMarks = (text) =>
  text.split(INVISIBLE).map((part, index) => (index % 2 ? html`<span class="mark">${name(part)}</span>` : part));

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
