// Tabs whose choice is in the address.
import { html } from "../lib.js";

/** Show links to the parts of a screen: `tabs` are `{id, label, href}`. */
export const Tabs = ({ tabs, current, label }) => html`<nav class="tabs" aria-label=${label}>
  ${tabs.map(({ id, label: text, href }) => html`<a href=${href} aria-current=${id === current ? "page" : undefined}>${text}</a>`)}
</nav>`;
