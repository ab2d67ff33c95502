// Tables of a few hundred rows at most.
import { html } from "../lib.js";

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
