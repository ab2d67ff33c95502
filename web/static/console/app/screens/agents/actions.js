// Actions on many agents: calls of the service until nothing is left, and what undoes them.
import { html, useEffect, useRef, useState } from "../../lib.js";
import { post } from "../../core/api.js";
import { plural } from "../../core/words.js";
import { Button, Dialog, Field, Form, toast } from "../../ui/ui.js";

const PATH = "/api/cloud/agents/actions/";
const MAX_IDS = 1000; // that one call takes

/** For each action its button, what it will do, and what it has done; agents follow. */
export const WORDS = {
  pause: ["Pause", "pause", "Paused"],
  resume: ["End pause", "end the pause of", "Ended the pause of"],
  stop: ["Stop", "stop", "Stopped"],
  archive: ["Archive", "archive", "Archived"],
  restore: ["Restore", "restore", "Restored"],
  clear: ["Clear", "clear what is active for", "Cleared what was active for"],
  tag: ["Tag", "tag", "Tagged"],
  untag: ["Remove tag", "take the tag from", "Took the tag from"],
};

const matchOf = (filters) => ({ ...filters, ...(filters.tag && { tag: [filters.tag].flat() }) });

/** Return the bodies of the calls that act on a selection. */
export const bodiesOf = ({ ids, allMatching, match }, details) => {
  if (allMatching) return [{ ...details, match: matchOf(match.filters) }];
  const all = [...ids];
  const parts = Array.from({ length: Math.ceil(all.length / MAX_IDS) }, (_, part) => all.slice(part * MAX_IDS, (part + 1) * MAX_IDS));
  return parts.map((agents) => ({ ...details, agents }));
};

/** Make the calls until nothing is left, or `isOver()`; an error ends them and is in the result. */
export const carryOut = async (bodies, { onPart, isOver } = {}) => {
  const sum = { matched: 0, changed: 0, failures: [], undo: [], canUndo: true, error: null };
  try {
    for (const body of bodies) {
      let after = null;
      do {
        const part = await post(PATH, after ? { ...body, after } : body);
        sum.matched += part.matched;
        sum.changed += part.changed;
        sum.failures.push(...part.failures);
        if (part.undo) sum.undo.push(part.undo);
        else if (part.changed) sum.canUndo = false;
        after = part.next;
        onPart?.({ ...sum });
        if (isOver?.()) return sum;
      } while (after);
    }
  } catch (error) {
    sum.error = error;
  }
  return sum;
};

/** Say what a dry run has found. */
export const announce = (action, { matched, changed }) => {
  const part = changed < matched ? `${changed.toLocaleString("en")} of ` : matched > 1 ? "all " : "";
  if (changed) return `This will ${WORDS[action][1]} ${part}${plural(matched, "agent")}.`;
  return matched === 1 ? "This would change nothing." : `This would change none of ${plural(matched, "agent")}.`;
};

/** Say what was done. */
export const tell = (action, { changed, failures }) => {
  const done = changed ? `${WORDS[action][2]} ${plural(changed, "agent")}.` : "There was nothing to change.";
  return failures.length ? `${done} ${failures.length.toLocaleString("en")} could not be changed.` : done;
};

// What can be done with the selected agents: counted first, done in parts, and undone where that is possible.

const MAX_FAILURES = 20; // that are shown one by one

const undoOf = ({ undo, canUndo }, done) => {
  if (!canUndo || !undo.length) return undefined;
  return async () => {
    if (undo.length > 1) toast("Undoing…");
    const result = await carryOut(undo);
    done();
    if (result.error) throw result.error;
    toast(result.failures.length ? `Undone, but not for ${plural(result.failures.length, "agent")}.` : "Undone.");
  };
};

/** Show what was done as a message with its undo; throw the error that ended it. */
const report = (action, result, done) => {
  done(action);
  if (result.changed || !result.error) toast(tell(action, result), { undo: undoOf(result, done), tone: result.failures.length ? "bad" : "" });
  if (result.error) throw result.error;
};

const Failures = ({ failures }) => html`<ul class="agents-failures">
  ${failures.slice(0, MAX_FAILURES).map(
    ({ agent, error }) => html`<li key=${agent}><a href="/console/agents/${agent}">${agent}</a> <bdi>${error}</bdi></li>`,
  )}
  ${failures.length > MAX_FAILURES && html`<li>and ${plural(failures.length - MAX_FAILURES, "other")}</li>`}
</ul>`;

const TagForm = ({ choose }) => html`<${Form} submit="Go on" save=${async ({ what, tag }) => choose({ action: what, tags: [tag.trim()] })}>
  <${Field} label="Tag" name="tag" required maxlength="255" autofocus />
  <${Field} label="What to do" name="what" type="select" options=${[["tag", "Add it"], ["untag", "Take it away"]]} />
<//>`;

/** Count what an action would change, ask, and carry it out with its progress. */
const Confirmation = ({ details, selection, close, done }) => {
  const { action } = details;
  const [plan, setPlan] = useState(null);
  const [progress, setProgress] = useState(null);
  const [failures, setFailures] = useState(null);
  const isClosed = useRef(false);
  useEffect(() => {
    carryOut(bodiesOf(selection, { ...details, dry_run: true })).then(setPlan);
    return () => (isClosed.current = true);
  }, []);
  const run = async () => {
    setProgress({ changed: 0 });
    const result = await carryOut(bodiesOf(selection, details), { onPart: setProgress, isOver: () => isClosed.current });
    setProgress(null);
    if (!result.failures.length) close();
    else setFailures(result.failures);
    report(action, result, done);
  };
  if (failures) return html`<p>${plural(failures.length, "agent")} could not be changed:</p><${Failures} failures=${failures} />`;
  if (!plan) return html`<p role="status">Counting…</p>`;
  if (plan.error) return html`<p class="error" role="alert">${plan.error.sentence ?? plan.error.message}</p>`;
  return html`<p role="status"><b>${announce(action, plan)}</b></p>
    ${action === "stop" && plan.changed > 0 && html`<p class="muted">A stop cannot be undone: what is in the queues then waits for something new.</p>`}
    ${progress && html`<progress aria-label="Progress" max=${plan.changed} value=${progress.changed} />`}
    <div class="form-actions">
      ${plan.changed > 0 &&
      html`<${Button} kind="primary" run=${run}>${progress ? `${progress.changed.toLocaleString("en")} done` : `${WORDS[action][0]} ${plural(plan.changed, "agent")}`}<//>`}
      <button type="button" onClick=${close}>${progress ? "Stop here" : "Cancel"}</button>
    </div>`;
};

/** Show the buttons for actions on `selection`; `done(action)` is called after each. */
const Actions = ({ actions, selection, done }) => {
  const [details, setDetails] = useState(null);
  const close = () => setDetails(null);
  const isOne = !selection.allMatching && selection.count === 1;
  const choose = async (chosen) => {
    if (!isOne) return setDetails(chosen);
    close();
    return report(chosen.action, await carryOut(bodiesOf(selection, chosen)), done);
  };
  const start = (action) => (action === "tag" ? setDetails({ action: "" }) : choose({ action }));
  return html`${actions.map(
      (action) => html`<${Button} key=${action} run=${async () => start(action)}>${action === "tag" ? "Tag…" : WORDS[action][0]}<//>`,
    )}
    ${details &&
    html`<${Dialog} title=${WORDS[details.action || "tag"][0]} close=${close}>
      ${details.action
        ? html`<${Confirmation} key=${details.action} details=${details} selection=${selection} close=${close} done=${done} />`
        : html`<${TagForm} choose=${choose} />`}
    <//>`}`;
};

const LEAVE = new Set(["archive", "restore"]); // the agents are no longer in the list

/** Show the actions; `selection` is `{ids: Set, allMatching, match: {filters}, count}`, `done` reads the list again. */
export const ActionBar = ({ selection, done }) => {
  const { status, phase, include_archived: archived } = selection.match.filters;
  const isArchived = status === "archived" || phase === "archived";
  const actions = isArchived ? ["restore", "tag"] : ["pause", "resume", "stop", "clear", "tag", "archive", ...(archived ? ["restore"] : [])];
  const finish = (action) => {
    if (LEAVE.has(action)) selection.clear?.();
    done();
  };
  return html`<div class="agents-actions" role="toolbar" aria-label="Actions on the selected agents">
    <${Actions} actions=${actions} selection=${selection} done=${finish} />
  </div>`;
};

/** Show the actions on one agent; `done` reads it again. */
export const AgentActions = ({ agent, done }) => {
  const isArchived = agent.status === "archived";
  const selection = { ids: new Set([agent.id]), count: 1 };
  const actions = isArchived ? ["restore"] : [agent.paused ? "resume" : "pause", "stop", "clear", "tag", "archive"];
  return html`<${Actions} actions=${actions} selection=${selection} done=${done} />`;
};
