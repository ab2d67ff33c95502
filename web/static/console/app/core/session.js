// Who is signed in. The token lives in sessionStorage: it ends with the tab, and no request carries it by itself.
import { computed, signal } from "../lib.js";

const KEY = "hostsvc.session";

const read = () => {
  try {
    return JSON.parse(sessionStorage.getItem(KEY));
  } catch {
    return null;
  }
};

/** The session: `{kind: "person"|"operator", token, user, organizations, organization}`, or null. */
export const session = signal(read());
export const isOperator = computed(() => session.value?.kind === "operator");
/** The organization that new things belong to: `{id, name, role}`; null for operators. */
export const organization = computed(() => {
  const { organizations = [], organization: id } = session.value ?? {};
  return organizations.find((one) => one.id === id) ?? organizations[0] ?? null;
});
/** Whether the person may change what admins change, in the chosen organization. */
export const isAdmin = computed(() => ["owner", "admin"].includes(organization.value?.role));

/** Whether the last session ended because the service refused its token. */
export const hasExpired = signal(false);

/** Start a session, or replace parts of the present one. */
export const updateSession = (changes) => {
  hasExpired.value = false;
  session.value = { ...session.value, ...changes };
  sessionStorage.setItem(KEY, JSON.stringify(session.value));
};

/** End the session; the sign-in screen appears and leads back to the same address. */
export const endSession = () => {
  sessionStorage.removeItem(KEY);
  hasExpired.value = false;
  session.value = null;
};

/** End a session whose token the service refuses; the sign-in screen says so. */
export const expireSession = () => {
  if (!session.peek()) return;
  endSession();
  hasExpired.value = true;
};
