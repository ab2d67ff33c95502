// Filters of lists.
import { html, useEffect, useRef } from "../lib.js";
import { plain } from "../core/plain.js";

const TYPING_MS = 250;

/** Show a text filter, which takes effect when the typing pauses. */
export const TextFilter = ({ label, value, change, ...rest }) => {
  const timer = useRef(null);
  const input = useRef(null);
  useEffect(() => {
    if (document.activeElement !== input.current) input.current.value = value;
  }, [value]);
  const onInput = (event) => {
    const text = event.target.value.trim();
    clearTimeout(timer.current);
    timer.current = setTimeout(change, TYPING_MS, text);
  };
  return html`<input ref=${input} type="search" aria-label=${label} placeholder=${label} defaultValue=${value} onInput=${onInput} ...${rest} />`;
};

/** Show a choice; `options` are pairs of a value and its words, "" stands for no filter. */
export const Choice = ({ label, value = "", options, change }) => html`<select aria-label=${label} onChange=${(event) => change(event.target.value)}>
  ${options.map(([one, words]) => html`<option key=${one} value=${one} selected=${one === value}>${plain(words)}</option>`)}
</select>`;
