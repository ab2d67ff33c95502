// The head of an agent: why it does what it does, what wakes it next, what keeps it awake, and what one can do.
import { html } from "../../lib.js";
import { post } from "../../core/api.js";
import { useGet } from "../../core/resource.js";
import { formatDuration, now } from "../../core/time.js";
import { plural } from "../../core/words.js";
import { Button, Instant, Line, Sentence, toast } from "../../ui/ui.js";
import { AgentActions } from "../agents/action_bar.js";

const RUN_ANSWERS = {
  started: "A run has started.",
  queued: "A run is queued.",
  already_running: "A run is already active.",
};

/** Show what one can do with an agent. */
export const Actions = ({ agent, state }) => {
  const path = `/api/cloud/agents/${agent.id}`;
  const run = async () => {
    const { status } = await post(`${path}/run/`);
    toast(RUN_ANSWERS[status] ?? `The request was answered: ${status.replaceAll("_", " ")}.`);
    state.reload();
  };
  const reload = () => {
    agent.reload();
    state.reload();
  };
  return html`<${Button} kind="primary" run=${run}>Run now<//><${AgentActions} agent=${agent} done=${reload} />`;
};

/** Show the time that is left until an instant, each second. */
const Countdown = ({ at }) => {
  const left = Math.ceil((Date.parse(at) - now.value) / 1000);
  return html`<b class="number">${left > 0 ? `in ${formatDuration(left)}` : "due now"}</b>`;
};

const Blockers = ({ agent, ids }) => {
  const first = useGet(`/api/defaults/notifications/${ids[0]}/`);
  const more = ids.length > 1 && ` and ${ids.length >= 100 ? "99 or more others" : plural(ids.length - 1, "other")}`;
  return html`<dt>Keeps it awake</dt>
    <dd>
      <a href="/console/agents/${agent.id}/queue">
        ${first.data ? html`“<${Line} value=${first.data.title} max=${80} />”` : plural(1, "notification")}${more}
      </a>
    </dd>`;
};

/** Show the sentence of an agent large, and the facts beside it. */
export const Head = ({ agent, state }) => {
  const { phase, why, next_wake: next, blockers, failures, run } = state;
  const zone = agent.timezone;
  return html`<div class="agent-head">
    <p class="agent-why"><${Sentence} text=${why} zone=${zone} /></p>
    <dl class="facts">
      <dt>Next wake</dt>
      <dd>
        ${next
          ? html`<${Countdown} at=${next.at} /> · <${Instant} at=${next.at} zone=${zone} /> · <${Sentence} text=${next.because} zone=${zone} />`
          : run
            ? html`<a href="/console/agents/${agent.id}/runs/${run.id}">It is awake: open its run</a>`
            : ["paused", "archived"].includes(phase)
              ? "Nothing wakes it at present."
              : "Only something new can wake it."}
      </dd>
      ${blockers.length > 0 && html`<${Blockers} agent=${agent} ids=${blockers} />`}
      ${failures.consecutive > 0 &&
      html`<dt>Failures</dt>
        <dd>
          ${plural(failures.consecutive, "run")} in a row; the last error: <${Line} value=${failures.last_error || "unknown"} />
          ${failures.retry_at && html` · next try <${Countdown} at=${failures.retry_at} />`}
        </dd>`}
    </dl>
  </div>`;
};
