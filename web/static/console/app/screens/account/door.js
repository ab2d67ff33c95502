// The card that all screens before the sign-in share, and what each of them ends with.
import { html } from "../../lib.js";
import { ApiError, send, updateSession } from "../../core/api.js";
import { BASE, navigate, query, setTitle } from "../../core/router.js";
import { useFirstField } from "../../ui/ui.js";

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

/** Go where the person wanted to go before the sign-in: only to addresses of the console, and below the first page. */
export const goOn = (fallback = `${BASE}/`) => {
  const next = query.value.next;
  const isBelow = (path) => path.startsWith(`${BASE}/`);
  const isOurs = typeof next === "string" && isBelow(next) && isBelow(new URL(next, location.href).pathname) && next !== `${BASE}/`;
  navigate(isOurs ? next : fallback, { replace: true });
};

/** Start the session of a person by a token, and read the person's organizations and roles. */
export const enter = async (token, organization = null) => {
  const headers = { Authorization: `Token ${token}` };
  const response = await send("GET", "/api/organizations/auth/me/", { headers });
  if (!response.ok) throw new ApiError(response.status);
  const { user, organizations } = await response.json();
  updateSession({ kind: "person", token, user, organizations, organization });
};
