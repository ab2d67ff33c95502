// The events of an agent as rows to read.

/** Return a row for each text and each change of phase, and whether the agent has run and sleeps again. */
export const happenings = (events) => {
  const rows = [];
  let hasRun = false;
  let phase = "asleep";
  for (const { id, at, type, data, resource } of events) {
    if (type === "notification.created") {
      rows.push({ id, at, kind: data.source === "sms" ? "text" : "notice", sentence: resource?.title ?? "" });
    } else if (data.to) {
      phase = data.to;
      hasRun ||= phase === "running";
      rows.push({ id, at, phase, sentence: data.why });
    }
  }
  return { rows, isDone: hasRun && phase === "asleep" };
};
