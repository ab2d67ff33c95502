// Filters of lists.
import { html, useEffect, useRef, useState } from "../lib.js";
import { get } from "../core/api.js";
import { plain } from "../core/plain.js";
import { query, setQuery } from "../core/router.js";

const TYPING_MS = 250;
const AGENTS = "/api/cloud/supervisors/";
const SEARCH_MS = 200;
const MAX_FOUND = 20;
let count = 0;

/** Return pairs of id and name for a choice; the chosen one is among them, even if it was not found. */
export const namesOf = (found, chosen) => {
  const pairs = (found ?? []).map(({ id, name }) => [id, name]);
  return !chosen || pairs.some(([id]) => id === chosen) ? pairs : [...pairs, [chosen, chosen]];
};

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
export const Choice = ({ label, value = "", options, change, ...rest }) => html`<select aria-label=${label} onChange=${(event) => change(event.target.value)} ...${rest}>
  ${options.map(([one, words]) => html`<option key=${one} value=${one} selected=${one === value}>${plain(words)}</option>`)}
</select>`;

/** Show a choice with its label, for the parameter `name` of the address. */
export const QueryChoice = ({ label, name, ...rest }) => html`<label>
  ${label} <${Choice} label=${label} value=${query.value[name]} change=${(value) => setQuery({ [name]: value })} ...${rest} />
</label>`;

const wordsOf = ({ name, agent }) => `${name} · ${agent.slice(-6)}`;

/** Show a field that finds an agent by name; `change(id)` is called when one is chosen, with "" when it is emptied. */
export const AgentPicker = ({ label, value = "", change, placeholder = label, ...rest }) => {
  const [found, setFound] = useState([]);
  const input = useRef(null);
  const timer = useRef(null);
  const list = useRef(null);
  list.current ??= `agents-found-${(count += 1)}`;
  const search = (text) =>
    get(AGENTS, { search: text, limit: MAX_FOUND, sort: "name" }).then(setFound, () => setFound([]));
  useEffect(() => {
    if (!value) input.current.value = "";
    else get(AGENTS, { agent: value, include_archived: true }).then(([one]) => (input.current.value = one ? wordsOf(one) : value), () => {});
  }, [value]);
  const onInput = (event) => {
    const text = event.target.value.trim();
    const chosen = found.find((one) => wordsOf(one) === text);
    clearTimeout(timer.current);
    if (chosen || !text) change(chosen?.agent ?? "");
    else timer.current = setTimeout(search, SEARCH_MS, text);
  };
  const onFocus = () => !found.length && search("");
  return html`<input ref=${input} type="search" aria-label=${label} placeholder=${placeholder} list=${list.current} onInput=${onInput} onFocus=${onFocus} ...${rest} />
    <datalist id=${list.current}>${found.map((one) => html`<option key=${one.agent} value=${wordsOf(one)}></option>`)}</datalist>`;
};
