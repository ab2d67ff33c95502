// What woke a run, what it left, what it cost and said.
import { html, useEffect, useState } from "../../lib.js";
import { get } from "../../core/api.js";
import { onEvents } from "../../core/live.js";
import { useResource } from "../../core/resource.js";
import { now } from "../../core/time.js";
import { money, plural, reasonWords } from "../../core/words.js";
import { Duration, Instant, Line, Text } from "../../ui/ui.js";
import { journalWords, secondsOf } from "../agent/run_words.js";
import { short } from "./waterfall.js";

const SHOWN = 10;
const SHOWN_CHARACTERS = 1500; // of what the model writes

const Titles = ({ titles, count }) => html`<ul class="run-titles">
  ${titles.map((title) => html`<li><${Line} value=${title || "(without a title)"} /></li>`)}
  ${count > titles.length && html`<li class="muted">and ${plural(count - titles.length, "more", "more")}</li>`}
</ul>`;

// The titles are in the journal, or while the run goes on in the queue.
const useWokenBy = ({ agent, journal, notifications }) => {
  const isNeeded = !journal && notifications.length > 0;
  const queue = useResource(
    async (signal) => (isNeeded ? get("/api/defaults/notifications/", { agent, limit: 200 }, signal) : []),
    [agent, isNeeded],
  );
  const found = (id) => (queue.data ?? []).filter((one) => one.id === id).map((one) => one.title);
  return journal?.woken_by ?? notifications.slice(0, SHOWN).flatMap(found);
};

const Woken = ({ run, zone }) => html`<section>
  <h2>What woke it</h2>
  <p>${reasonWords(run.wake_reason)}, <${Instant} at=${run.started_at} zone=${zone} style="full" /></p>
  <${Titles} titles=${useWokenBy(run)} count=${run.notification_count} />
  ${run.interrupted_sleep_until &&
  html`<p class="muted">It cut short a sleep until <${Instant} at=${run.interrupted_sleep_until} zone=${zone} style="full" />.</p>`}
</section>`;

const leftWords = ({ ended_at: endedAt, journal }) => {
  if (!endedAt) return "It is still running.";
  return journal?.uncleared ? (journal.uncleared_count ? "" : "Nothing.") : "This was not recorded.";
};

const Left = ({ run }) => html`<section>
  <h2>What it left uncleared</h2>
  <p>${leftWords(run)}</p>
  <${Titles} titles=${(run.journal?.uncleared ?? []).map((one) => one.title)} count=${run.journal?.uncleared_count} />
  ${run.journal?.uncleared_count > 0 && html`<a href="/console/agents/${run.agent}/queue">Go to the queue</a>`}
</section>`;

const Figures = ({ run, spans }) => {
  const sum = (name) => (spans?.[name] ?? []).reduce((total, count) => total + (count ?? 0), 0);
  const figures = {
    Duration: html`<${Duration} seconds=${Math.max(0, secondsOf(run, run.ended_at ? 0 : now.value))} />`,
    Turns: run.turns,
    "Tokens in": short(sum("input_tokens")),
    cached: short(sum("cached_tokens")),
    out: short(sum("output_tokens")),
    Cost: money(run.journal?.cost_usd ?? sum("costs_usd")),
  };
  return html`<dl class="run-figures">
    ${Object.entries(figures).map(([name, figure]) => html`<div><dt>${name}</dt><dd>${figure}</dd></div>`)}
  </dl>`;
};

const LiveText = ({ run }) => {
  const [answer, setAnswer] = useState({ text: "" });
  const add = ({ turn, offset, text }) =>
    setAnswer((old) => ({ turn, text: (old.turn === turn ? old.text : "").slice(0, offset) + text }));
  useEffect(() => onEvents(["model.delta"], (event) => event?.run === run && add(event.data)), [run]);
  return answer.text && html`<${Titled} title="Turn ${answer.turn}: the model writes" text=${answer.text.slice(-SHOWN_CHARACTERS)} />`;
};

const Titled = ({ title, text, kind }) => text && html`<section class=${kind}><h2>${title}</h2><${Text} value=${text} /></section>`;

const failedTools = ({ journal }) =>
  (journal?.tools ?? []).filter((tool) => tool.errors).map((tool) => `${tool.name} failed ${plural(tool.errors, "time")}: ${tool.last_error}`);

/** Show what the service knows of a run. */
export const Summary = ({ run, spans, zone }) => html`<div class="card run-summary">
  <div class="run-why"><${Woken} run=${run} zone=${zone} /><${Left} run=${run} /></div>
  <${Titled} title="Error" text=${run.error} kind="run-error" />
  <${Titled} title="Reason of the stop" text=${run.stop_reason} />
  <${Figures} run=${run} spans=${spans} />
  ${!run.ended_at && html`<${LiveText} run=${run.id} />`}
  <${Titled} title="What it did" text=${[journalWords({ ...run, output: "" }), ...failedTools(run)].join("\n").trim()} />
  <${Titled} title="Final output" text=${run.output} />
</div>`;
