// The versions of a text, of a document or a system prompt: who wrote each, what it changed, and the way back.
import { html } from "../lib.js";
import { get, post } from "../core/api.js";
import { useGet, useResource } from "../core/live.js";
import { query, setQuery } from "../core/router.js";
import { Instant, plural } from "../core/words.js";
import { ConfirmButton, Loaded, Text, toast } from "./ui.js";

// The difference between two texts, line by line.

const MAX_CELLS = 1_000_000;
const AROUND = 3; // unchanged lines around a change

/** Return the changed middle of two lists of lines by their longest common part. */
const changed = (before, after) => {
  const width = after.length + 1;
  const isSmall = before.length * width < MAX_CELLS;
  const common = new Uint16Array(isSmall ? (before.length + 1) * width : 0);
  if (isSmall) {
    for (let i = before.length - 1; i >= 0; i -= 1) {
      for (let j = after.length - 1; j >= 0; j -= 1) {
        const at = i * width + j;
        common[at] = before[i] === after[j] ? common[at + width + 1] + 1 : Math.max(common[at + width], common[at + 1]);
      }
    }
  }
  const found = [];
  let i = 0;
  let j = 0;
  while (i < before.length || j < after.length) {
    const isSame = isSmall && i < before.length && j < after.length && before[i] === after[j];
    const at = i * width + j;
    if (isSame) {
      found.push({ sign: " ", text: before[i++] });
      j += 1;
    } else if (j === after.length || (i < before.length && (!isSmall || common[at + width] >= common[at + 1]))) found.push({ sign: "-", text: before[i++] });
    else found.push({ sign: "+", text: after[j++] });
  }
  return found;
};

/** Return the lines around what differs as `{sign, text}`: "-" only before, "+" only after, "…" left out. */
export const diff = (beforeText, afterText) => {
  const before = beforeText.split("\n");
  const after = afterText.split("\n");
  const shorter = Math.min(before.length, after.length);
  let start = 0;
  while (start < shorter && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < shorter - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const same = (from, to) => before.slice(Math.max(0, from), to).map((text) => ({ sign: " ", text }));
  const [last, stop] = [before.length - end, after.length - end];
  const lines = [...same(start - AROUND, start), ...changed(before.slice(start, last), after.slice(start, stop)), ...same(last, last + AROUND)];
  const isNear = (index) => lines.slice(Math.max(0, index - AROUND), index + AROUND + 1).some(({ sign }) => sign !== " ");
  return lines.flatMap((line, index) => (isNear(index) ? [line] : isNear(index - 1) ? [{ sign: "…", text: "" }] : []));
};

const MAX_LINES = 1000;
const SHOW = { replace: true };
const FRESH = { events: ["run.ended", "agent.changed"], every: 15 }; // not every change is an event

const Change = ({ before, after }) => {
  const lines = diff(before, after);
  if (!lines.length) return html`<p class="muted">The text is the same.</p>`;
  return html`<div class="documents-diff" tabindex="0" role="region" aria-label="Changes">
    ${lines.slice(0, MAX_LINES).map(
      ({ sign, text }, index) => html`<div key=${index} class=${{ "+": "documents-added", "-": "documents-removed" }[sign] ?? "muted"}>
        <span aria-label=${{ "+": "added", "-": "removed" }[sign]}>${sign}</span><${Text} value=${text} />
      </div>`,
    )}
    ${lines.length > MAX_LINES && html`<p class="muted">${plural(lines.length - MAX_LINES, "more line")} changed.</p>`}
  </div>`;
};

const Version = ({ path, number, previous, isCurrent, undo, reload }) => {
  const read = (one, signal) => (one ? get(`${path}${one}/`, {}, signal) : { content: "" });
  const texts = useResource((signal) => Promise.all([read(previous, signal), read(number, signal)]), [path, number, previous]);
  const revert = async () => {
    await post(`${path}${number}/revert/`);
    toast(`Version ${number} is back, as a new version.`, { undo: () => post(undo).then(reload) });
    setQuery({ version: null }, SHOW);
    reload();
  };
  return html`<${Loaded} of=${texts}>
    ${([before, after]) => html`<div class="split">
        <h3>Version ${number}${previous ? `, compared with ${previous}` : ""}</h3>
        ${!isCurrent && html`<${ConfirmButton} question="Make it the current version?" run=${revert}>Revert to version ${number}<//>`}
      </div>
      <${Change} before=${before.content} after=${after.content} />`}
  <//>`;
};

const AUTHORS = { user: "a person", key: "an API key", agent: "an agent", run: "an agent" };

/** Return who wrote a version, or the current one of a document, in words. */
export const authorOf = ({ author, run }) => (run ? "an agent" : (AUTHORS[author.split(":")[0]] ?? "unknown"));

/** Show the versions below a path of the API; the one of the address with what it changed. `reload` reads their owner,
 * whose times are in `zone`. */
export const Versions = ({ path, zone, isDeleted, reload }) => {
  const versions = useGet(path, {}, FRESH);
  const chosen = Number(query.value.version) || null;
  const reloadAll = () => {
    versions.reload();
    reload();
  };
  const details = (all) => {
    const current = all[0].number;
    const previous = all.find(({ number }) => number < chosen)?.number;
    const isCurrent = chosen === current && !isDeleted;
    return html`<${Version} key=${chosen} ...${{ path, number: chosen, previous, isCurrent }} undo="${path}${current}/revert/" reload=${reloadAll} />`;
  };
  return html`<h3>Versions</h3>
    <${Loaded} of=${versions}>
      ${(all) => html`<ul class="documents-versions">
          ${all.map(
            (one) => html`<li key=${one.number}>
              <button type="button" class="quiet" aria-pressed=${one.number === chosen} onClick=${() => setQuery({ version: one.number === chosen ? null : one.number }, SHOW)}>
                ${one.number} · <${Instant} at=${one.created_at} zone=${zone} /> · ${authorOf(one)}
              </button>
            </li>`,
          )}
        </ul>
        ${chosen && details(all)}`}
    <//>`;
};
