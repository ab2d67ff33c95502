// The item that is selected in the day lane: its sentence, its limits, its run, and the explanation as of then.
import { html, useEffect, useState } from "../../lib.js";
import { useGet } from "../../core/resource.js";
import { formatDuration, now } from "../../core/time.js";
import { Instant, Line, PhaseBadge, Text } from "../../ui/ui.js";
import { outcomeWords } from "./run_words.js";
import { actorWord, sentenceOf, spanWords, wordOf } from "./lane_words.js";

const SETTLE_MS = 150; // while arrow keys are held down, nothing is read

/** Return a value once it has not changed for a moment. */
const useSettled = (value) => {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(setSettled, SETTLE_MS, value);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
};

const Run = ({ agent, id }) => {
  const wanted = useSettled(id);
  const { data } = useGet(`/api/cloud/agents/${agent.id}/runs/${wanted}/`, {}, {
    events: ["run.*"],
    agent: agent.id,
  });
  return html`<p>
    <a href="/console/agents/${agent.id}/runs/${id}">Open its run</a>
    ${data?.id === id && html` · ${outcomeWords(data)}`}
  </p>`;
};

const AsOf = ({ agent, one }) => {
  const wanted = useSettled(one.start);
  const path = `/api/cloud/agents/${agent.id}/supervisor/`;
  const { data } = useGet(path, { at: wanted });
  if (!data || wanted !== one.start) return html`<p class="muted">…</p>`;
  if (!data.next_wake_at && one.phase !== "asleep") return null;
  const began = data.since && Date.parse(data.since) < Math.floor(one.at) && data.phase === one.phase;
  return html`<p class="muted">
    As of <${Instant} at=${data.at} zone=${agent.timezone} />:
    ${began && html` ${wordOf(one)} since <${Instant} at=${data.since} zone=${agent.timezone} />;`}
    ${data.next_wake_at
      ? html` it was to wake at <${Instant} at=${data.next_wake_at} zone=${agent.timezone} />.`
      : one.phase === "asleep" && " nothing was to wake it by itself."}
  </p>`;
};

const More = ({ agent, one }) => {
  if (one.kind === "band") return one.phase === "unknown" ? null : html`<${AsOf} agent=${agent} one=${one} />`;
  if (one.kind === "ahead") return html`<p class="muted">In ${formatDuration(Math.max(0, Math.round((one.at - now.value) / 1000)))}, as decided at present.</p>`;
  const cleared = one.cleared && one.cleared_by ? ` · cleared by ${actorWord(one.cleared_by)}` : "";
  const by = one.by ? `by ${actorWord(one.by)}` : "";
  return html`<p class="muted">${by}${cleared}${one.priority ? ` · ${one.priority} priority` : ""}</p>`;
};

/** Show the item that is selected. The present is explained by the head of the page. */
export const LaneDetail = ({ agent, one, isPresent }) => {
  const sentence = sentenceOf(one, agent.timezone);
  return html`<div class="lane-detail">
    <p class="lane-head">
      ${one.kind === "band" ? html`<${PhaseBadge} phase=${one.phase} />` : html`<b>${wordOf(one)}</b>`}
      <span class="number">${spanWords(one, agent.timezone, now.value)}</span>
    </p>
    ${one.title && html`<p><${Line} value=${one.title} /></p>`}
    ${sentence && !isPresent && html`<div class="lane-sentence"><${Text} value=${sentence} /></div>`}
    ${one.run && html`<${Run} agent=${agent} id=${one.run} />`}
    ${!isPresent && html`<${More} agent=${agent} one=${one} />`}
  </div>`;
};
