// The schedules of an agent: when each comes, what became of its last moments, and a form that says so while one types.
import { html, useEffect, useState } from "../../lib.js";
import { del, patch, post } from "../../core/api.js";
import { useGet, usePages } from "../../core/live.js";
import { query, setQuery } from "../../core/router.js";
import { Instant, Relative } from "../../core/words.js";
import { Badge, Button, ConfirmButton, Dialog, Field, Form, Line, Loaded, Text, toast } from "../../ui/ui.js";

const SCHEDULES = "/api/defaults/schedules/";
const EVENTS = ["schedule.*"];
const PREVIEW_MS = 300; // after the last key
const OUTCOMES = { late: "warn", paused: "", nothing_waiting: "", unchanged: "", failed: "warn", fired: "good", merged: "warn", manual: "good" };
const word = (name) => name.replaceAll("_", " ");

const Outcome = ({ of }) => (of ? html`<${Badge} tone=${OUTCOMES[of]}>${word(of)}<//>` : null);

const Moments = ({ of, zone }) => html`<ul>${of.map(({ at }) => html`<li key=${at}><${Instant} at=${at} zone=${zone} style="full" /></li>`)}</ul>`;

const Record = ({ agent, schedule }) => {
  const occurrences = useGet(`${SCHEDULES}${schedule.id}/occurrences/`, {}, { events: EVENTS, agent: agent.id });
  const whole = useGet(`${SCHEDULES}${schedule.id}/`, {}, { events: EVENTS, agent: agent.id });
  return html`${schedule.body && html`<${Text} value=${schedule.body} />`}
    <h4>Next</h4>
    <${Loaded} of=${whole}>${({ upcoming }) => html`<${Moments} of=${upcoming} zone=${schedule.effective_timezone} />`}<//>
    <h4>Last</h4>
    <${Loaded} of=${occurrences}>
      ${(list) =>
        list.length === 0
          ? html`<p class="muted">It has not come yet.</p>`
          : html`<ul>
              ${list.map(
                (one) => html`<li key=${one.occurs_at}>
                  <${Instant} at=${one.occurs_at} zone=${schedule.effective_timezone} style="full" /> <${Outcome} of=${one.outcome} />
                  ${one.missed_count > 0 && ` ${one.missed_count} missed before`}
                  ${one.run && html` <a href="/console/agents/${agent.id}/runs/${one.run}">its run</a>`}
                </li>`,
              )}
            </ul>`}
    <//>`;
};

const Row = ({ agent, schedule, reload }) => {
  const [isOpen, setOpen] = useState(false);
  const path = `${SCHEDULES}${schedule.id}/`;
  const act = (run, said) => async () => (await run(), toast(said), reload());
  const isPaused = schedule.paused_reason === "manual";
  return html`<li class="agent-item">
    <details onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="agent-item-title"><${Line} value=${schedule.title} /></span>
        <small>
          ${schedule.says} ·
          ${schedule.paused ? html`<${Badge} tone="warn">paused: ${word(schedule.paused_reason)}<//>` : html`next <${Relative} at=${schedule.next_at} />`}
          ${schedule.last_outcome && html` · last <${Outcome} of=${schedule.last_outcome} />`}
        </small>
      </summary>
      ${isOpen && html`<${Record} agent=${agent} schedule=${schedule} />`}
    </details>
    <span class="actions">
      <${Button} run=${act(() => post(`${path}run/`), "The agent is notified.")}>Now<//>
      <${Button} run=${act(() => patch(path, { paused: !isPaused }), isPaused ? "It goes on." : "It is paused.")}>${isPaused ? "Go on" : "Pause"}<//>
      <${ConfirmButton} question="Delete it with its record?" kind="quiet" run=${act(() => del(path), "Deleted.")}>Delete<//>
    </span>
  </li>`;
};

/** Say when a schedule would come, a moment after the last key. */
const Preview = ({ cron, timezone }) => {
  const [shown, setShown] = useState(null);
  useEffect(() => {
    const ask = async () => {
      try {
        setShown(await post(`${SCHEDULES}preview/`, { cron, timezone }));
      } catch (error) {
        setShown({ says: error.sentence ?? error.message, hint: "", upcoming: [] });
      }
    };
    const timer = setTimeout(cron ? ask : () => setShown(null), PREVIEW_MS);
    return () => clearTimeout(timer);
  }, [cron, timezone]);
  return html`<div role="status" class="hint">
    ${shown && html`<p>${shown.says}</p>${shown.hint && html`<p>${shown.hint}</p>`}<${Moments} of=${shown.upcoming} zone=${timezone} />`}
  </div>`;
};

const MAX_WATCH_MS = 29 * 86_400_000; // less than the 30 days that are allowed, as clocks differ
const WAKE_IF = [["changed", "changed"], ["nonempty", "not empty"], ["error", "an error"]];

/** Return the settings of a watch; none without a tool. */
const checkOf = ({ tool, arguments: given, wake_if }) =>
  tool ? { check: { tool, arguments: JSON.parse(given || "{}"), wake_if }, ends_at: new Date(Date.now() + MAX_WATCH_MS).toISOString() } : {};

const NewSchedule = ({ agent, close, reload }) => {
  const [typed, setTyped] = useState({});
  const save = async ({ title, body, cron, timezone, only_if: onlyIf, ...check }) => {
    await post(SCHEDULES, { agent: agent.id, title, body, cron, timezone: timezone || null, only_if: onlyIf, ...checkOf(check) });
    close();
    reload();
    toast("The schedule is set.");
  };
  const conditions = [["always", "always"], ["waiting", "only if something waits"]];
  return html`<${Dialog} title="New schedule" close=${close}>
    <${Form} save=${save} submit="Set" onInput=${setTyped}>
      <${Field} label="Title" name="title" required help="What the agent is told each time." />
      <${Field} label="Text" name="body" type="textarea" />
      <${Field} label="Cron" name="cron" required placeholder="0 9 * * 1-5" help="Minute, hour, day of month, month, day of week." />
      <${Field} label="Time zone" name="timezone" help=${`Empty: that of the agent, ${agent.timezone}.`} />
      <${Field} label="When" name="only_if" type="select" options=${conditions} value="always" />
      <details>
        <summary>Only if the answer of a tool says so, for 29 days</summary>
        <${Field} label="Tool" name="tool" help="Of an adapter, and marked: a repeated call does no harm." />
        <${Field} label="Arguments" name="arguments" placeholder="{}" help="A JSON object." />
        <${Field} label="Wake if it is" name="wake_if" type="select" options=${WAKE_IF} value="changed" />
      </details>
      <${Preview} cron=${typed.cron} timezone=${typed.timezone || agent.timezone} />
    <//>
  <//>`;
};

/** Show the schedules of an agent. */
export default ({ agent }) => {
  const schedules = usePages(SCHEDULES, { agent: agent.id, limit: 100 }, { events: EVENTS, agent: agent.id });
  return html`<div class="stack">
    <div class="actions"><button onClick=${() => setQuery({ new: "schedule" })}>New schedule</button></div>
    ${query.value.new && html`<${NewSchedule} agent=${agent} close=${() => setQuery({ new: null })} reload=${schedules.reload} />`}
    <${Loaded} of=${schedules}>
      ${(list) =>
        list.length
          ? html`<ul class="agent-items" aria-label="Schedules">${list.map((one) => html`<${Row} key=${one.id} agent=${agent} schedule=${one} reload=${schedules.reload} />`)}</ul>`
          : html`<p class="muted">It has no schedule. One notifies it again and again, at set times.</p>`}
    <//>
  </div>`;
};
