// The components that screens share.
import { createContext, html, signal, useContext, useEffect, useLayoutEffect, useRef, useState } from "../lib.js";
import { flatten, get, post } from "../core/api.js";
import { query, setQuery, setTitle } from "../core/router.js";
import { codePoint, costWords, INVISIBLE, localize, PHASES, plain, plural } from "../core/words.js";

// What leaves the page: copied text and saved files.

// Where the page came over plain HTTP, the browser has no clipboard for it.
const copyBySelection = (text) => {
  const field = document.createElement("textarea");
  field.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (!isCopied) throw new Error("The browser does not let this page copy. Select the text, and copy it yourself.");
};

/** Copy a text to the clipboard. */
export const copyText = async (text) => {
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else copyBySelection(text);
};

/** Save contents as a file of the reader. */
export const saveFile = (blob, name) => {
  const href = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href, download: name }).click();
  setTimeout(URL.revokeObjectURL, 1000, href);
};

// Text of tenants, and JSON: always text, never markup, with its invisible characters made visible.

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

// Short messages at the edge of the page.

const SHOWN_MS = 8000;
const toasts = signal([]);
let toastCount = 0;

const remove = (id) => (toasts.value = toasts.value.filter((one) => one.id !== id));

/** Show a message for some seconds; `undo` adds a button that calls it, `tone` may be `bad`. */
export const toast = (text, { undo, tone = "" } = {}) => {
  const id = (toastCount += 1);
  toasts.value = [...toasts.value.slice(-3), { id, text, undo, tone }];
  setTimeout(remove, undo ? 2 * SHOWN_MS : SHOWN_MS, id);
};

/** Show the messages; once in the page. */
export const Toasts = () => {
  const takeBack = async ({ id, undo }) => {
    remove(id);
    try {
      await undo();
    } catch (error) {
      toast(error.sentence ?? error.message, { tone: "bad" });
    }
  };
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.value.map(
      (one) => html`<div class="toast ${one.tone}" key=${one.id}>
        <span>${one.text}</span>
        ${one.undo && html`<button onClick=${() => takeBack(one)}>Undo</button>`}
        <button class="quiet" aria-label="Dismiss" onClick=${() => remove(one.id)}>✕</button>
      </div>`,
    )}
  </div>`;
};

// Small parts that every screen uses.

/** Show a screen's heading with its actions, and its contents. `title` is text, also of tenants; `heading` may be more than that. */
export const Page = ({ title, heading, actions, children }) => {
  setTitle(title);
  return html`<div class="page">
    <header class="page-head">
      <h1>${heading ?? html`<${Line} value=${title} />`}</h1>
      <div class="actions">${actions}</div>
    </header>
    ${children}
  </div>`;
};

/** Show the phase of an agent, by a colour and a word. */
export const PhaseBadge = ({ phase }) => html`<span class="phase phase-${phase}">${PHASES[phase] ?? phase}</span>`;

/** Show a short label; `tone`: `good`, `warn`, `bad` or nothing. */
export const Badge = ({ tone = "", children }) => html`<span class="badge ${tone}">${children}</span>`;

/** Show a sentence of the service with its times in the chosen zone. */
export const Sentence = ({ text, zone }) => html`<span class="sentence"><bdi>${localize(text ?? "", zone)}</bdi></span>`;

/** Show an amount of US dollars, of which `unpriced` calls without a known price are no part. */
export const Money = ({ amount, unpriced }) => html`<span class="number">${amount == null ? "–" : costWords(amount, unpriced)}</span>`;

/** Show a button that runs something, and cannot be pressed again until that is done. Errors become a message. */
export const Button = ({ run, kind = "", children, disabled, ...rest }) => {
  const [isBusy, setBusy] = useState(false);
  const press = async (event) => {
    if (isBusy) return;
    setBusy(true);
    try {
      await run(event);
    } catch (error) {
      toast(error.sentence ?? error.message, { tone: "bad" });
    } finally {
      setBusy(false);
    }
  };
  return html`<button type="button" class=${kind} disabled=${disabled} aria-busy=${isBusy} onClick=${press} ...${rest}>
    ${children}
  </button>`;
};

const SENT_WORDS = { failed_message: "message", failing_hook: "delivery" };

/** Send again or dismiss what needs a person, and say what came of it: the items with these ids, or all of a kind. */
export const actOn = async (action, kind, ids) => {
  let done = 0;
  let after;
  const failures = [];
  do {
    const answer = await post("/api/cloud/attention/", { action, kind, ids, after });
    done += answer.done;
    failures.push(...answer.failures);
    after = ids ? null : answer.next;
  } while (after);
  const sent = plural(done, SENT_WORDS[kind], kind === "failing_hook" ? "deliveries" : "messages");
  if (done || !failures.length) toast(action === "send" ? `${sent} sent again.` : "Dismissed.");
  if (failures.length) toast(`${failures.length} not done: ${failures[0].error}`, { tone: "bad" });
};

/** Show a button that asks once more before it runs something. */
export const ConfirmButton = ({ question, run, kind = "", children }) => {
  const [isAsking, setAsking] = useState(false);
  const confirm = async () => {
    await run();
    setAsking(false);
  };
  if (!isAsking) return html`<button type="button" class=${kind} onClick=${() => setAsking(true)}>${children}</button>`;
  return html`<span class="confirm" role="group" aria-label=${question}>
    ${question} <${Button} kind="danger" run=${confirm}>${children}<//>
    <button type="button" class="quiet" onClick=${() => setAsking(false)}>Cancel</button>
  </span>`;
};

/** Show a button that copies a text. */
export const CopyButton = ({ text, label = "Copy" }) =>
  html`<${Button}
    kind="quiet"
    run=${async () => {
      await copyText(typeof text === "function" ? text() : text);
      toast("Copied.");
    }}
    >${label}<//
  >`;

/** Show links to the parts of a screen: `tabs` are `{id, label, href}`. */
export const Tabs = ({ tabs, current, label }) => html`<nav class="tabs" aria-label=${label}>
  ${tabs.map(({ id, label: text, href }) => html`<a href=${href} aria-current=${id === current ? "page" : undefined}>${text}</a>`)}
</nav>`;

/** Show rows as a table. A column: `{title, cell(row), number?}`; `id(row)` and `selected` mark one row. */
export const Table = ({ columns, rows, id = (row) => row.id, selected, label }) => html`<div class="table-box" tabindex="0" role="region" aria-label=${label}>
  <table>
    <thead>
      <tr>${columns.map(({ title, number }) => (title ? html`<th scope="col" class=${number ? "number" : ""}>${title}</th>` : html`<td></td>`))}</tr>
    </thead>
    <tbody>
      ${rows.map(
        (row) => html`<tr key=${id(row)} aria-current=${id(row) === selected ? "true" : undefined}>
          ${columns.map((column) => html`<td class=${column.number ? "number" : ""} data-title=${column.title}>${column.cell(row)}</td>`)}
        </tr>`,
      )}
    </tbody>
  </table>
</div>`;

// A window over the page; Escape closes it, and the focus stays inside.

/** Show a dialog with a title until `close` is called. */
export const Dialog = ({ title, close, wide, children }) => {
  const dialog = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current.showModal();
    return () => before?.focus?.();
  }, []);
  const onClick = (event) => event.target === dialog.current && close();
  return html`<dialog ref=${dialog} class=${wide ? "wide" : ""} aria-label=${title} onClose=${close} onClick=${onClick}>
    <div class="dialog-body">
      <header>
        <h2>${title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick=${close}>✕</button>
      </header>
      ${children}
    </div>
  </dialog>`;
};

// What stands in a place while its data is on the way, refused, or empty.

const modules = new Map();

const TITLES = {
  0: "No answer",
  403: "Not allowed",
  404: "Not found",
  503: "Not available at the moment",
};

/** Show why something cannot be shown, and what to do. */
export const Failure = ({ error, retry }) => html`<div class="state" role="alert">
  <h2>${TITLES[error.status] ?? "That did not work"}</h2>
  <p>${error.sentence ?? error.message}</p>
  ${retry && error.status !== 404 && html`<button onClick=${retry}>Try again</button>`}
</div>`;

/** Show that something is on the way. */
export const Loading = () => html`<div class="state loading" role="status">Loading…</div>`;

/** Show that there is nothing, and what to do about it. */
export const Empty = ({ title, children }) => html`<div class="state">
  <h2>${title}</h2>
  ${children}
</div>`;

/** Show a resource: its children get the data; `empty` replaces an empty list. */
export const Loaded = ({ of: resource, empty, children }) => {
  const { data, error, reload } = resource;
  const show = Array.isArray(children) ? children[0] : children;
  if (data === null && error) return html`<${Failure} error=${error} retry=${reload} />`;
  if (data === null) return html`<${Loading} />`;
  const isEmpty = Array.isArray(data) && data.length === 0 && empty;
  return html`${error && html`<p class="stale" role="alert">${error.sentence}</p>`}${isEmpty ? empty : show(data)}`;
};

/** Show the component of a module, which is loaded when it is first needed. */
export const Lazy = ({ load, ...rest }) => {
  const [ended, setEnded] = useState({});
  useEffect(() => {
    if (modules.has(load)) return;
    load().then(
      (module) => setEnded(modules.set(load, module)),
      () => setEnded({ failed: load }),
    );
  }, [load]);
  const module = modules.get(load);
  if (module) return html`<${module.default} ...${rest} />`;
  if (ended.failed !== load) return html`<${Loading} />`;
  const sentence = "This page could not be loaded: the service does not answer, or has another version now.";
  return html`<${Failure} error=${{ sentence }} retry=${() => location.reload()} />`;
};

// Long lists: only the rows that can be seen are in the page.

const AROUND = 8; // rows above and below what is seen

/** Show `count` rows of a fixed height in a box that scrolls.
 *
 * `row(index)` returns one; `selected` (an index) is kept in view; `onEnd` is called when fewer than `ahead` rows follow,
 * and `onView(first, last)` when other rows are shown.
 */
export const VirtualRows = ({ count, height, row, selected = -1, onEnd, onView, ahead = AROUND, label, role = "list", ...rest }) => {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const measure = () => {
    const { scrollTop, clientHeight } = box.current;
    setView((old) => (old.top === scrollTop && old.height === clientHeight ? old : { top: scrollTop, height: clientHeight }));
  };
  useLayoutEffect(() => {
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    measure();
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (selected < 0) return;
    const { scrollTop, clientHeight } = box.current;
    const top = selected * height;
    if (top < scrollTop) box.current.scrollTop = top;
    else if (top + height > scrollTop + clientHeight) box.current.scrollTop = top + height - clientHeight;
  }, [selected, height]);
  const first = Math.max(0, Math.floor(view.top / height) - AROUND);
  const last = Math.min(count, Math.ceil((view.top + view.height) / height) + AROUND);
  useEffect(() => {
    if (last >= count - ahead) onEnd?.();
  }, [last, count]);
  useEffect(() => onView?.(first, last), [first, last]);
  const rows = [];
  for (let index = first; index < last; index += 1) {
    const place = { position: "absolute", top: `${index * height}px`, height: `${height}px`, left: 0, right: 0 };
    rows.push(html`<div key=${index} class="virtual-row" style=${place} role=${role === "list" ? "listitem" : undefined}>${row(index)}</div>`);
  }
  return html`<div ref=${box} class="virtual" role=${role} aria-label=${label} tabindex="0" onScroll=${measure} ...${rest}>
    <div class="virtual-all" style=${{ height: `${count * height}px` }} role="presentation">${rows}</div>
  </div>`;
};

// Filters of lists.

const TYPING_MS = 250;
const AGENTS = "/api/cloud/supervisors/";
const SEARCH_MS = 200;
const MAX_FOUND = 20;
let pickerCount = 0;

/** Return pairs of id and name for a choice; the chosen one is among them, even if it was not found. */
export const namesOf = (found, chosen) => {
  const pairs = (found ?? []).map(({ id, name }) => [id, name]);
  return !chosen || pairs.some(([id]) => id === chosen) ? pairs : [...pairs, [chosen, chosen]];
};

/** Show a text filter, which takes effect when the typing pauses. Escape leaves it; `on…` are other keys. */
export const TextFilter = ({ label, value, change, autofocus, onEnter, onArrowDown, ...rest }) => {
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
  useEffect(() => autofocus && input.current.focus({ preventScroll: true }), []);
  const onKeyDown = (event) => {
    const run = { Enter: onEnter, ArrowDown: onArrowDown, Escape: ({ target }) => target.blur() }[event.key];
    if (!run || event.isComposing) return;
    event.preventDefault();
    run(event);
  };
  return html`<input ref=${input} type="search" aria-label=${label} placeholder=${label} defaultValue=${value} onInput=${onInput} onKeyDown=${onKeyDown} ...${rest} />`;
};

const MOMENT = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?)?$/;
const FORMATS = { date: "YYYY-MM-DD", moment: "YYYY-MM-DD hh:mm" };

/** Show a field for a day, or for a `moment`, in the format of all dates. `change` gets it as ISO 8601, or "". */
export const DateField = ({ value = "", type = "date", change, ...rest }) => {
  const input = useRef(null);
  const format = FORMATS[type];
  useEffect(() => {
    if (document.activeElement !== input.current) input.current.value = value.replace("T", " ");
  }, [value]);
  const onInput = ({ target }) => {
    const text = target.value.trim().replace(" ", "T");
    const isValid = MOMENT.test(text) && text.includes("T") === (type === "moment") && !Number.isNaN(Date.parse(text));
    target.setCustomValidity(isValid || !text ? "" : `Write it as ${format}.`);
    if (isValid || !text) change(text);
  };
  const onChange = ({ target }) => target.reportValidity();
  return html`<input ref=${input} type="text" size=${format.length} placeholder=${format} title=${format} maxlength="19" autocomplete="off" defaultValue=${value.replace("T", " ")} onInput=${onInput} onChange=${onChange} ...${rest} />`;
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
  list.current ??= `agents-found-${(pickerCount += 1)}`;
  const search = (text) =>
    get(AGENTS, { search: text, limit: MAX_FOUND, sort: "name" }).then(setFound, () => setFound([]));
  useEffect(() => {
    let isOver = false;
    const show = ([one]) => !isOver && (input.current.value = one ? wordsOf(one) : value);
    if (value) get(AGENTS, { agent: value, include_archived: true }).then(show, () => {});
    else input.current.value = "";
    return () => (isOver = true);
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

// Forms: labels, values by type, and the service's messages beside the fields that they are about.

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

// How many agents are in which phase.

/** Show the counts as a bar and as words; `href(phase)` makes the words links. */
export const Phases = ({ phases, href }) => {
  const pairs = Object.entries(phases);
  if (!pairs.length) return null;
  return html`<div class="now-phases">
    <div class="now-bar" aria-hidden="true">
      ${pairs.map(([phase, count]) => html`<i key=${phase} class="now-part-${phase}" style=${{ flexGrow: count }}></i>`)}
    </div>
    <ul aria-label="Agents by phase">
      ${pairs.map(([phase, count]) => {
        const text = html`<${PhaseBadge} phase=${phase} /> ${count.toLocaleString("en")}`;
        return html`<li key=${phase}>${href ? html`<a href=${href(phase)}>${text}</a>` : text}</li>`;
      })}
    </ul>
  </div>`;
};
