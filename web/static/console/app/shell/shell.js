// The frame around all screens: navigation, the state of the connection, and what is the same everywhere.
import { html, signal, useEffect, useState } from "../lib.js";
import { endSession, get, isOperator, linkToken, organization, post, session, updateSession } from "../core/api.js";
import { hasSingleKeys, layers, toggleSingleKeys, useKeys } from "../core/keys.js";
import { isFrozen, live, toggleFrozen } from "../core/live.js";
import { currentUrl, navigate, path } from "../core/router.js";
import { chooseZone, formatInstant, plain, zone } from "../core/words.js";
import { isForOperators, listedScreens, screenAt } from "../screens.js";
import { copyText, Dialog, Lazy, Line, Page, toast, Toasts } from "../ui/ui.js";

// The bar above all screens: whether the page follows the service, the zone of all times, and who is signed in.

const words = () => {
  const { state, asOf } = live.value;
  const time = asOf ? formatInstant(asOf, null, "time") : "";
  if (isFrozen.value) return ["frozen", `as of ${time}`];
  if (state === "live") return ["live", "live"];
  if (state === "connecting") return ["reconnecting", "connecting"];
  return ["reconnecting", asOf ? `reconnecting, as of ${time}` : "reconnecting"];
};

/** Show whether the page is live; pressing it stops the page from changing. */
export const LiveBadge = () => {
  const [state, text] = words();
  const title = isFrozen.value ? "Let the page change again" : "Stop the page from changing";
  return html`<button class="live live-${state}" title=${title} onClick=${toggleFrozen}>
    <span aria-live="polite">${text}</span>
  </button>`;
};

const ZONES = [["agent", "Agent's time"], ["utc", "UTC"], ["local", "My time"]];

/** Choose whose time the console shows. */
export const ZoneChoice = () => html`<select
  class="zone"
  aria-label="Time zone of all times"
  onChange=${(event) => chooseZone(event.target.value)}
>
  ${ZONES.map(([value, label]) => html`<option value=${value} selected=${value === zone.value}>${label}</option>`)}
</select>`;

const signOut = async () => {
  if (!isOperator.value) await post("/api/organizations/auth/logout/").catch(() => null);
  endSession();
};

/** Show the organization and the person, with the way out. */
export const Account = () => {
  const { organizations = [], user } = session.value;
  const chosen = organization.value?.id;
  const choose = (event) => updateSession({ organization: event.target.value });
  return html`<div class="account">
    ${organizations.length > 1
      ? html`<select aria-label="Organization" onChange=${choose}>
          ${organizations.map(({ id, name }) => html`<option value=${id} selected=${id === chosen}>${plain(name)}</option>`)}
        </select>`
      : html`<bdi class="line">${isOperator.value ? "Operator" : organization.value?.name}</bdi>`}
    <button class="quiet" title=${user?.email ?? "The operator's token"} onClick=${signOut}>Sign out</button>
  </div>`;
};

// One place to go anywhere: pages, agents by name, and the actions of the present screen.

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

// The keys that have an effect at present.

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

const opened = signal(null); // "palette" or "help"

const Screen = ({ screen, values }) => html`<${Lazy} key=${screen.pattern} load=${screen.load} ...${values} />`;

const NotThere = () => html`<${Page} title="There is no such page"><p><a href="/console/">Go to the first page</a></p><//>`;

const NotForOperators = () => html`<${Page} title="This page belongs to an organization">
  <p>The operator's token shows the whole service. Sign out, and sign in with the account of a person.</p>
  <p><a href="/console/service">Go to the service</a></p>
<//>`;

const Contents = ({ found }) => {
  if (!found) return html`<${NotThere} />`;
  if (isOperator.value && !isForOperators(found.screen)) return html`<${NotForOperators} />`;
  return html`<${Screen} ...${found} />`;
};

const goUp = () => {
  const parts = path.value.split("/").filter(Boolean);
  const isTwoDeep = ["runs", "traces"].includes(parts.at(-2)); // without a list at the address between
  navigate(`/console/${parts.slice(0, isTwoDeep ? -2 : -1).join("/")}`);
};

const copyLink = async () => {
  await copyText(currentUrl());
  toast("The link to what you see is copied.");
};

const focusFilter = () => document.querySelector("[data-filter]")?.focus();

const useGlobalKeys = () => {
  const bindings = {
    "/": { help: "Go to the filter", run: focusFilter },
    u: { help: "Go up", run: goUp },
    ".": { help: "Stop the page from changing, or let it go on", run: toggleFrozen },
    y: { help: "Copy a link to what you see", run: copyLink },
    "?": { help: "Show the keys", run: () => (opened.value = "help") },
    "Ctrl-k": { help: "Search for a page, an agent or an action", run: () => (opened.value = "palette") },
  };
  for (const { key, label, href } of listedScreens(isOperator.value)) {
    bindings[`g ${key}`] = { help: `Go to ${label}`, run: () => navigate(href) };
  }
  useKeys(bindings);
};

/** Show the pages; on a telephone they are a menu, whose button has the name of the present one. */
const Navigation = ({ current }) => {
  const [openAt, setOpenAt] = useState(null);
  const pages = listedScreens(isOperator.value);
  const isOpen = openAt === path.value;
  return html`<nav class="side ${isOpen ? "open" : ""}" aria-label="Pages">
    <a class="brand" href="/console/">hostsvc</a>
    <button class="menu" aria-expanded=${isOpen} aria-controls="pages" onClick=${() => setOpenAt(isOpen ? null : path.value)}>
      ${pages.find(({ name }) => name === current)?.label ?? "Pages"} ▾
    </button>
    <ul id="pages" onClick=${() => setOpenAt(null)}>
      ${pages.map(({ name, label, href }) => html`<li><a href=${href} aria-current=${name === current ? "page" : undefined}>${label}</a></li>`)}
    </ul>
  </nav>`;
};

const SignedIn = ({ found }) => {
  useGlobalKeys();
  // A dialog reports that it has closed a moment later, when another may be open already.
  const close = (name) => opened.value === name && (opened.value = null);
  return html`<div class="frame">
    <a class="skip" href="#main">Skip to the contents</a>
    <${Navigation} current=${found?.screen.name} />
    <div class="column">
      <header class="top">
        <button class="search" onClick=${() => (opened.value = "palette")}>Search <kbd>Ctrl K</kbd></button>
        <${LiveBadge} /><${ZoneChoice} /><${Account} />
      </header>
      <main id="main" tabindex="-1"><${Contents} found=${found} /></main>
    </div>
    ${opened.value === "palette" && html`<${Palette} close=${() => close("palette")} />`}
    ${opened.value === "help" && html`<${KeyHelp} close=${() => close("help")} />`}
    <${Toasts} />
  </div>`;
};

const PublicFrame = ({ found }) => html`<main id="main" class=${found.screen.isPublic ? "door" : "alone"}><${Screen} ...${found} /><${Toasts} /></main>`;

/** Show the console: a public screen, the sign-in, or the frame with the screen of the address. */
export const Shell = () => {
  const found = screenAt(path.value);
  const here = location.pathname + location.search;
  const isOpen = found?.screen.isPublic || (found?.screen.takesLink && linkToken() !== null);
  const mustSignIn = !session.value && !isOpen;
  useEffect(() => {
    if (mustSignIn) navigate(`/console/sign-in?next=${encodeURIComponent(here)}`, { replace: true });
  }, [mustSignIn]);
  if (mustSignIn) return null;
  if (isOpen) return html`<${PublicFrame} found=${found} />`;
  return html`<${SignedIn} found=${found} />`;
};
