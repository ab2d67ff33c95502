// The list twin of the day lane: the same items as a table.
import { html, useState } from "../../lib.js";
import { formatDuration } from "../../core/time.js";
import { Instant, Line, Table, Text } from "../../ui/ui.js";
import { sentenceOf, wordOf } from "./lane_words.js";

const ROWS = 50;

const lengthOf = (one) => {
  if (one.kind === "band") return formatDuration((one.until - one.at) / 1000);
  return one.cleared ? formatDuration((one.cleared - one.at) / 1000) : "";
};

const columnsFor = ({ id, timezone }) => [
  { title: "From", cell: (one) => html`<${Instant} at=${one.start} zone=${timezone} style="full" />` },
  { title: "What", cell: wordOf },
  { title: "Lasted", number: true, cell: lengthOf },
  {
    title: "Why",
    cell: (one) => html`${one.title && html`<${Line} value=${one.title} /> `}<${Text} value=${sentenceOf(one, timezone)} />`,
  },
  { title: "Run", cell: (one) => one.run && html`<a href="/console/agents/${id}/runs/${one.run}">run</a>` },
];

const Rows = ({ agent, items, index }) => {
  const [first, setFirst] = useState(Math.max(0, index - (index % ROWS)));
  const start = Math.min(first, Math.max(0, items.length - 1));
  const rows = items.slice(start, start + ROWS).map((one, number) => ({ ...one, number: start + number }));
  return html`<p class="split">
      <span>${start + 1}–${start + rows.length} of ${items.length.toLocaleString("en")}</span>
      <span class="actions">
        <button disabled=${start === 0} onClick=${() => setFirst(Math.max(0, start - ROWS))}>Earlier</button>
        <button disabled=${start + ROWS >= items.length} onClick=${() => setFirst(start + ROWS)}>Later</button>
      </span>
    </p>
    <${Table} label="What happened" columns=${columnsFor(agent)} rows=${rows} id=${(one) => one.number} selected=${index} />`;
};

/** Show the items as a table, 50 at a time. */
export const LaneTable = ({ agent, items, index }) => {
  const [isOpen, setOpen] = useState(false);
  return html`<details class="lane-table" open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>As a table</summary>
    ${isOpen && html`<${Rows} agent=${agent} items=${items} index=${index} />`}
  </details>`;
};
