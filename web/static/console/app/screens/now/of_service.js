// What needs the operator, from the status of the service. Pure functions.
const OLD_MS = 600_000;
const DAY_MS = 86_400_000;

const place = (agent) => ({ agent, href: `/console/service/${agent}`, place: [`/console/service/${agent}`, "Explain it"] });

/** Return the item for a reason why the service is not well. */
export const degraded = (reason) => ({ kind: "degraded", sentence: reason, place: ["/console/service", "Look at the service"] });

const ended = (text) => (/[.!?…]$/.test(text) ? text : `${text}.`);

const quarantined = ({ agent, name, failures, last_error: error }) => ({
  kind: "quarantined",
  ...place(agent),
  agent_name: name,
  since: null,
  sentence: `Quarantined after ${failures} failures in a row, the last one: ${ended(error)}`,
});

const forgotten = ({ agent, since }) => ({
  kind: "forgotten",
  ...place(agent),
  agent_name: agent,
  since,
  sentence: "A high-priority notification is active, and nothing has started the agent or will start it.",
});

const uncleared = ({ agent, name, since }) => ({
  kind: "uncleared_high",
  ...place(agent),
  agent_name: name,
  since,
  sentence: "It has the oldest high-priority notification that is not cleared, of all agents.",
});

/** Return the items and the number of each kind. */
export const itemsOf = (status, moment) => {
  const { service, oldest_uncleared_high: oldest, failing_webhooks: webhooks } = status;
  const items = [
    ...service.reasons.map(degraded),
    ...status.forgotten.map(forgotten),
    ...status.quarantined.map(quarantined),
  ];
  if (oldest && moment - Date.parse(oldest.since) > OLD_MS) items.push(uncleared(oldest));
  if (webhooks) {
    const text = webhooks === 1 ? "One event webhook fails, or was" : `${webhooks} event webhooks fail, or were`;
    const sentence = `${text} switched off by the service. The admins of their organizations see which.`;
    items.push({ kind: "failing_webhook", sentence, place: [] });
  }
  return { items, counts: { quarantined: status.supervisors.quarantined, failing_webhook: 1 } };
};

/** Return the wakes of the next 24 hours among the agents that were read. */
export const agendaOf = (supervisors, moment) =>
  supervisors
    .filter(({ next_wake: wake }) => wake && Date.parse(wake.at) < moment + DAY_MS)
    .map(({ agent, name, next_wake: wake }) => ({ ...wake, agent, agent_name: name, timezone: null, href: `/console/service/${agent}` }))
    .sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
