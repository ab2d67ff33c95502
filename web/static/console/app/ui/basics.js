// Small parts that every screen uses.
import { html, useState } from "../lib.js";
import { copyText } from "../core/export.js";
import { localize } from "../core/time.js";
import { money, PHASES } from "../core/words.js";
import { setTitle } from "../core/router.js";
import { Line } from "./text.js";
import { toast } from "./toast.js";

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

/** Show an amount of US dollars. */
export const Money = ({ amount }) => html`<span class="number">${amount == null ? "–" : money(amount)}</span>`;

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
