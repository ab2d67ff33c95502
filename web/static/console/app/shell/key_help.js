// The keys that have an effect at present.
import { html } from "../lib.js";
import { hasSingleKeys, layers, toggleSingleKeys } from "../core/keys.js";
import { Dialog } from "../ui/ui.js";

/** Show all keys, newest layer first, and the switch for single keys. */
export const KeyHelp = ({ close }) => {
  const rows = new Map();
  for (const { bindings } of [...layers.value].reverse()) {
    for (const [key, { help }] of Object.entries(bindings)) if (!rows.has(key)) rows.set(key, help);
  }
  return html`<${Dialog} title="Keys" close=${close}>
    <label class="check"><input type="checkbox" checked=${hasSingleKeys.value} onChange=${toggleSingleKeys} />
      Single keys have an effect</label>
    <dl class="keys">
      ${[...rows].map(([key, help]) => html`<div><dt>${key.split(" ").map((one) => html`<kbd>${one}</kbd>`)}</dt><dd>${help}</dd></div>`)}
    </dl>
  <//>`;
};
