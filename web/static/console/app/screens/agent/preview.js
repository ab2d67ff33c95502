// What the service would do: asked with a pause after each change, so that typing stays quick.
import { html, useEffect, useState } from "../../lib.js";
import { flatten, post } from "../../core/api.js";
import { Instant } from "../../core/words.js";
import { PhaseBadge, Sentence } from "../../ui/ui.js";

const PAUSE_MS = 250;

/** Ask for the preview of a question, null for none: `{data, askedAt, error}`; the old answer stays until the new one. */
export const usePreview = (agent, question, again) => {
  const [state, setState] = useState({});
  const key = JSON.stringify(question);
  useEffect(() => {
    if (!question) return setState({});
    let isOver = false;
    const timer = setTimeout(async () => {
      const answer = await post(`/api/cloud/agents/${agent.id}/preview/`, question).then(
        (data) => ({ data, askedAt: Date.now() }),
        (error) => ({ error }),
      );
      if (!isOver) setState(answer);
    }, PAUSE_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [agent.id, key, again]);
  return state;
};

/** Return the items as a form returns them, which separates by commas, too. */
export const listOf = (items) => items.join("\n").split(/[\n,]/).map((one) => one.trim()).filter(Boolean);

/** Show why a question is refused. */
export const Refusal = ({ error }) =>
  error && html`<p class="error" role="alert">${Object.keys(error.fields ?? {}).length ? flatten(error.fields) : error.sentence}</p>`;

/** Show an agent at one moment of a preview: its phase, why it is in it, and what wakes it next. */
export const Outlook = ({ title, outlook: { phase, why, next_wake: wake }, zone }) => html`<div class="outlook">
  <p><b>${title}</b> ${phase ? html`<${PhaseBadge} phase=${phase} />` : html`<span class="badge">not decided</span>`}</p>
  <p><${Sentence} text=${why} zone=${zone} /></p>
  ${wake && phase && html`<p class="muted">Next wake <${Instant} at=${wake.at} zone=${zone} />: <${Sentence} text=${wake.because} zone=${zone} /></p>`}
</div>`;
