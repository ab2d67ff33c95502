// The screens: where each is, how it is reached, and the module that is loaded when it is opened.
import { match } from "./core/router.js";

const SCREENS = [
  { pattern: "/", name: "now", label: "Now", key: "n", load: () => import("./screens/now/now.js") },
  { pattern: "/agents", name: "agents", label: "Agents", key: "a", load: () => import("./screens/agents/agents.js") },
  { pattern: "/runs", name: "runs", label: "Runs", key: "r", load: () => import("./screens/runs/runs.js") },
  { pattern: "/approvals/:id?", name: "approvals", label: "Approvals", key: "v", takesLink: true, load: () => import("./screens/approvals/approvals.js") },
  { pattern: "/messages", name: "messages", label: "Messages", key: "m", load: () => import("./screens/messages/messages.js") },
  { pattern: "/contacts/:id?", name: "contacts", label: "Contacts", key: "c", load: () => import("./screens/contacts/contacts.js") },
  { pattern: "/queue", name: "queue", label: "Queue", key: "q", load: () => import("./screens/queue/queue.js") },
  { pattern: "/usage", name: "usage", label: "Usage", key: "u", load: () => import("./screens/usage/usage.js") },
  { pattern: "/templates/:id?", name: "templates", label: "Templates", key: "t", load: () => import("./screens/templates/templates.js") },
  { pattern: "/tools/:id?", name: "tools", label: "Tools", key: "o", load: () => import("./screens/toolbox/toolbox.js") },
  { pattern: "/webhooks/:id?", name: "webhooks", label: "Webhooks", key: "w", load: () => import("./screens/webhooks/webhooks.js") },
  { pattern: "/hooks/:id?", name: "hooks", label: "Hooks", key: "h", load: () => import("./screens/hooks/hooks.js") },
  { pattern: "/people", name: "people", label: "People and keys", key: "p", load: () => import("./screens/people/people.js") },
  { pattern: "/service/:id?", name: "service", label: "Service", key: "s", load: () => import("./screens/service/service.js") },
  { pattern: "/start", name: "start", load: () => import("./screens/start/start.js") },
  { pattern: "/agents/:id/runs/:run", name: "agents", load: () => import("./screens/run/run.js") },
  { pattern: "/traces/:run", name: "agents", load: () => import("./screens/run/run.js") },
  { pattern: "/agents/:id/prompts", name: "agents", load: () => import("./screens/prompts/prompts.js") },
  { pattern: "/templates/:id/prompts", name: "templates", load: () => import("./screens/prompts/prompts.js") },
  { pattern: "/agents/:id/:tab?", name: "agents", load: () => import("./screens/agent/agent.js") },
  { pattern: "/sign-in", name: "sign-in", isPublic: true, load: () => import("./screens/account/sign_in.js") },
  { pattern: "/sign-up", name: "sign-up", isPublic: true, load: () => import("./screens/account/sign_up.js") },
  { pattern: "/reset", name: "reset", isPublic: true, load: () => import("./screens/account/reset.js") },
  { pattern: "/invites/:id", name: "invite", isPublic: true, load: () => import("./screens/account/invite.js") },
];
const OPERATOR_SCREENS = new Set(["now", "service"]);

/** Return the screen at a path with the values in the path, or null. */
export const screenAt = (path) => {
  for (const screen of SCREENS) {
    const values = match(screen.pattern, path);
    if (values) return { screen, values };
  }
  return null;
};

/** Return whether a screen can be shown with the operator's token, which belongs to no organization. */
export const isForOperators = (screen) => OPERATOR_SCREENS.has(screen.name);

/** Return the screens in the navigation: operators have those of the service, people all. */
export const listedScreens = (isOperator) =>
  SCREENS.filter((one) => one.key && (!isOperator || OPERATOR_SCREENS.has(one.name))).map((one) => ({
    ...one,
    href: `/console${one.pattern.replace(/\/:.*|^\/$/, "") || "/"}`,
  }));
