// Forms: labels, values by type, and the service's messages beside the fields that they are about.
import { createContext, html, useContext, useEffect, useRef, useState } from "../lib.js";
import { flatten } from "../core/api.js";
import { plain } from "../core/plain.js";

const Errors = createContext({});
const ZONES = Intl.supportedValuesOf("timeZone");
let fieldCount = 0;

const READERS = {
  number: (input) => (input.value.trim() === "" ? null : Number(input.value)),
  checkbox: (input) => input.checked,
  list: (input) => input.value.split(/[\n,]/).map((one) => one.trim()).filter(Boolean),
  datetime: (input) => input.value.trim() || null,
  json: (input) => {
    try {
      return JSON.parse(input.value || "null");
    } catch (error) {
      throw { fields: { [input.name]: `This is not JSON. ${error.message}` } };
    }
  },
};

/** Return the values that differ from what was before. */
export const changesOf = (values, before) =>
  Object.fromEntries(Object.entries(values).filter(([name, value]) => JSON.stringify(value ?? null) !== JSON.stringify(before[name] ?? null)));

/** Return the values of a form by the names of its fields; an empty `nullable` field is null. */
export const readForm = (form) => {
  const values = {};
  for (const input of form.elements) {
    if (!input.name) continue;
    const value = (READERS[input.dataset.type] ?? ((one) => one.value))(input);
    values[input.name] = value === "" && input.dataset.nullable ? null : value;
  }
  return values;
};

/** Show a form. `save(values)` returns a promise; its ApiError is shown at the fields, or above the button. */
export const Form = ({ save, submit = "Save", onInput, children, actions }) => {
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const form = useRef(null);
  const onSubmit = async (event) => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    setError(null);
    try {
      await save(readForm(form.current));
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  const fields = error?.fields ?? {};
  const named = new Set([...(form.current?.elements ?? [])].map((one) => one.name));
  const isShownAtFields = Object.keys(fields).length > 0 && Object.keys(fields).every((name) => named.has(name));
  return html`<form ref=${form} novalidate onSubmit=${onSubmit} onInput=${() => onInput?.(readForm(form.current))}>
    <${Errors.Provider} value=${fields}>${children}<//>
    ${error && !isShownAtFields && html`<p class="error" role="alert">${error.sentence ?? error.message}</p>`}
    <div class="form-actions"><button class="primary" aria-busy=${isBusy}>${submit}</button>${actions}</div>
  </form>`;
};

// Chromium needs a minute to wrap a word of a million characters.
const wrapFor = (value) => (/\S{5000}/.test(value ?? "") ? "off" : undefined);

const control = ({ type, options, value, rows, id, ...rest }) => {
  if (type === "textarea" || type === "json" || type === "list") {
    return html`<textarea id=${id} rows=${rows ?? 4} wrap=${wrapFor(value)} data-type=${type} defaultValue=${value ?? ""} ...${rest} />`;
  }
  if (type === "select") {
    return html`<select id=${id} ...${rest}>
      ${options.map(([one, label]) => html`<option value=${one} selected=${one === (value ?? "")}>${plain(label ?? one)}</option>`)}
    </select>`;
  }
  if (type === "checkbox") return html`<input id=${id} type="checkbox" data-type=${type} defaultChecked=${value} ...${rest} />`;
  const shown = { number: "number", password: "password", email: "email" }[type] ?? "text";
  const step = type === "number" ? "any" : undefined;
  return html`<input id=${id} type=${shown} step=${step} data-type=${type} defaultValue=${value ?? ""} ...${rest} />`;
};

/** Show a labelled field. What is typed stays until the field leaves the page; `value` is only its beginning.
 *
 * `type`: text, textarea, number, checkbox, select (`options`: pairs of value and label), password, email, list,
 * json or datetime (as text). Further properties, such as `required`, go to the input.
 */
export const Field = ({ label, help, name, type = "text", nullable, ...rest }) => {
  const id = useRef(null);
  id.current ??= `field-${(fieldCount += 1)}`;
  const own = id.current;
  const problem = useContext(Errors)[name];
  const described = [help && `${own}-help`, problem && `${own}-error`].filter(Boolean).join(" ") || undefined;
  const input = control({
    ...rest,
    id: own,
    name,
    type,
    "aria-invalid": problem ? "true" : undefined,
    "aria-describedby": described,
    "data-nullable": nullable ? "yes" : undefined,
  });
  return html`<div class="field ${type === "checkbox" ? "check" : ""}">
    <label for=${own}>${label}</label>
    ${input}
    ${help && html`<small id="${own}-help">${help}</small>`}
    ${problem && html`<p class="error" id="${own}-error">${flatten(problem)}</p>`}
  </div>`;
};

/** Show a field for a time zone. */
export const ZoneField = (props) => html`<${Field} ...${props} list="zones" />
  <datalist id="zones">${ZONES.map((one) => html`<option value=${one}></option>`)}</datalist>`;

/** Return a ref to an element whose first empty field, else its first field, gets the focus when `deps` change. */
export const useFirstField = (deps = []) => {
  const box = useRef(null);
  useEffect(() => {
    const fields = [...(box.current?.querySelectorAll("input, textarea, select") ?? [])];
    (fields.find((one) => !one.value) ?? fields[0])?.focus();
  }, deps);
  return box;
};
