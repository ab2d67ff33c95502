// The card that all screens before the sign-in share.
import { html } from "../../lib.js";
import { setTitle } from "../../core/router.js";
import { useFirstField } from "../../ui/focus.js";

/** Show a card with a title, whose first empty field gets the focus. */
export const Door = ({ title, links, deps, children }) => {
  setTitle(title);
  const box = useFirstField(deps);
  return html`<section class="card" ref=${box}>
    <h1>${title}</h1>
    ${children}
    <p class="muted door-links">${links}</p>
  </section>`;
};
