// One place to go anywhere: pages, agents by name, and the actions of the present screen.
import { html, useEffect, useState } from "../lib.js";
import { get } from "../core/api.js";
import { layers } from "../core/keys.js";
import { navigate } from "../core/router.js";
import { isOperator } from "../core/session.js";
import { listedScreens } from "../screens.js";
import { Dialog, Line } from "../ui/ui.js";

const WAIT_MS = 150;

const actions = (close) =>
  layers.value.flatMap(({ bindings }) =>
    Object.entries(bindings)
      .filter(([key]) => !key.startsWith("g ") && !["j", "k", "Ctrl-k"].includes(key))
      .map(([key, { help, run }]) => ({ label: help, hint: key, run: () => (close(), run()) })),
  );

const pages = (close) =>
  listedScreens(isOperator.value).map(({ label, href, key }) => ({
    label,
    hint: `g ${key}`,
    run: () => (close(), navigate(href)),
  }));

const useAgents = (text, close) => {
  const [agents, setAgents] = useState([]);
  useEffect(() => {
    if (!text || isOperator.peek()) return setAgents([]);
    const cancel = new AbortController();
    const timer = setTimeout(async () => {
      const found = await get("/api/cloud/agents/", { search: text, limit: 8 }, cancel.signal).catch(() => []);
      setAgents(found);
    }, WAIT_MS);
    return () => (clearTimeout(timer), cancel.abort());
  }, [text]);
  return agents.map(({ id, name }) => ({
    label: name,
    hint: "agent",
    run: () => (close(), navigate(`/console/agents/${id}`)),
  }));
};

/** Show the palette: type, choose with the arrow keys, press Enter. */
export const Palette = ({ close }) => {
  const [text, setText] = useState("");
  const [index, setIndex] = useState(0);
  const wanted = text.trim().toLowerCase();
  const fixed = [...pages(close), ...actions(close)].filter(({ label }) => label.toLowerCase().includes(wanted));
  const entries = [...fixed, ...useAgents(wanted, close)];
  const chosen = Math.min(index, entries.length - 1);
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setIndex((chosen + step + entries.length) % entries.length);
    else if (event.key === "Enter") entries[chosen]?.run();
    else return;
    event.preventDefault();
  };
  const onInput = (event) => (setText(event.target.value), setIndex(0));
  return html`<${Dialog} title="Go to" close=${close}>
    <input
      role="combobox"
      aria-label="Page, agent or action"
      aria-expanded="true"
      aria-controls="palette"
      aria-activedescendant=${entries.length ? `palette-${chosen}` : undefined}
      autocomplete="off"
      autofocus
      onInput=${onInput}
      onKeyDown=${onKeyDown}
    />
    <div id="palette" class="palette" role="listbox" aria-label="Found">
      ${entries.map(
        ({ label, hint, run }, place) => html`<div
          id="palette-${place}"
          key=${`${hint} ${place}`}
          role="option"
          aria-selected=${place === chosen}
          onClick=${run}
        >
          <${Line} value=${label} /> <kbd>${hint}</kbd>
        </div>`,
      )}
    </div>
  <//>`;
};
