// The frame around all screens: navigation, the state of the connection, and what is the same everywhere.
import { html, signal, useEffect } from "../lib.js";
import { copyText } from "../core/export.js";
import { useKeys } from "../core/keys.js";
import { toggleFrozen } from "../core/live.js";
import { currentUrl, navigate, path } from "../core/router.js";
import { isOperator, session } from "../core/session.js";
import { isForOperators, listedScreens, screenAt } from "../screens.js";
import { Lazy, Page, toast, Toasts } from "../ui/ui.js";
import { Palette } from "./palette.js";
import { KeyHelp } from "./key_help.js";
import { Account, LiveBadge, ZoneChoice } from "./top_bar.js";

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

const Navigation = ({ current }) => html`<nav class="side" aria-label="Pages">
  <a class="brand" href="/console/">hostsvc</a>
  <ul>
    ${listedScreens(isOperator.value).map(
      ({ name, label, href }) => html`<li><a href=${href} aria-current=${name === current ? "page" : undefined}>${label}</a></li>`,
    )}
  </ul>
</nav>`;

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

const PublicFrame = ({ found }) => html`<main id="main" class="door"><${Screen} ...${found} /><${Toasts} /></main>`;

/** Show the console: a public screen, the sign-in, or the frame with the screen of the address. */
export const Shell = () => {
  const found = screenAt(path.value);
  const here = location.pathname + location.search;
  const mustSignIn = !session.value && !found?.screen.isPublic;
  useEffect(() => {
    if (mustSignIn) navigate(`/console/sign-in?next=${encodeURIComponent(here)}`, { replace: true });
  }, [mustSignIn]);
  if (mustSignIn) return null;
  if (found?.screen.isPublic) return html`<${PublicFrame} found=${found} />`;
  return html`<${SignedIn} found=${found} />`;
};
