// What stands in a place while its data is on the way, refused, or empty.
import { html, useEffect, useState } from "../lib.js";

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
