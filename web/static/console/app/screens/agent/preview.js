// What the service would do: asked with a pause after each change, so that typing stays quick.
import { html, useEffect, useState } from "../../lib.js";
import { flatten, post } from "../../core/api.js";
import { Sentence } from "../../ui/ui.js";

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

/** Show the sentences of a preview, the first one larger. */
export const Sentences = ({ answer: { data, error }, zone }) => {
  if (error) {
    const said = Object.keys(error.fields ?? {}).length ? flatten(error.fields) : error.sentence;
    return html`<p class="error" role="alert">${said}</p>`;
  }
  if (!data) return null;
  return html`<div class="preview-said" role="status">
    ${data.sentences.map((one, index) => html`<p key=${index} class=${index ? "muted" : "lead"}><${Sentence} text=${one} zone=${zone} /></p>`)}
  </div>`;
};
