// A field in which an agent is found by its name.
import { html, useEffect, useRef, useState } from "../lib.js";
import { get } from "../core/api.js";

const PATH = "/api/cloud/supervisors/";
const TYPING_MS = 200;
const MAX_FOUND = 20;
let count = 0;

const wordsOf = ({ name, agent }) => `${name} · ${agent.slice(-6)}`;

/** Show a field that finds an agent by name; `change(id)` is called when one is chosen, with "" when it is emptied. */
export const AgentPicker = ({ label, value = "", change, placeholder = label, ...rest }) => {
  const [found, setFound] = useState([]);
  const input = useRef(null);
  const timer = useRef(null);
  const list = useRef(null);
  list.current ??= `agents-found-${(count += 1)}`;
  const search = (text) =>
    get(PATH, { search: text, limit: MAX_FOUND, sort: "name" }).then(setFound, () => setFound([]));
  useEffect(() => {
    if (!value) input.current.value = "";
    else get(PATH, { agent: value, include_archived: true }).then(([one]) => (input.current.value = one ? wordsOf(one) : value), () => {});
  }, [value]);
  const onInput = (event) => {
    const text = event.target.value.trim();
    const chosen = found.find((one) => wordsOf(one) === text);
    clearTimeout(timer.current);
    if (chosen || !text) change(chosen?.agent ?? "");
    else timer.current = setTimeout(search, TYPING_MS, text);
  };
  const onFocus = () => !found.length && search("");
  return html`<input ref=${input} type="search" aria-label=${label} placeholder=${placeholder} list=${list.current} onInput=${onInput} onFocus=${onFocus} ...${rest} />
    <datalist id=${list.current}>${found.map((one) => html`<option key=${one.agent} value=${wordsOf(one)}></option>`)}</datalist>`;
};
