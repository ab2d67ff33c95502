// Short messages at the edge of the page.
import { html, signal } from "../lib.js";

const SHOWN_MS = 8000;
const toasts = signal([]);
let count = 0;

const remove = (id) => (toasts.value = toasts.value.filter((one) => one.id !== id));

/** Show a message for some seconds; `undo` adds a button that calls it, `tone` may be `bad`. */
export const toast = (text, { undo, tone = "" } = {}) => {
  const id = (count += 1);
  toasts.value = [...toasts.value.slice(-3), { id, text, undo, tone }];
  setTimeout(remove, undo ? 2 * SHOWN_MS : SHOWN_MS, id);
};

/** Show the messages; once in the page. */
export const Toasts = () => {
  const takeBack = async ({ id, undo }) => {
    remove(id);
    try {
      await undo();
    } catch (error) {
      toast(error.sentence ?? error.message, { tone: "bad" });
    }
  };
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.value.map(
      (one) => html`<div class="toast ${one.tone}" key=${one.id}>
        <span>${one.text}</span>
        ${one.undo && html`<button onClick=${() => takeBack(one)}>Undo</button>`}
        <button class="quiet" aria-label="Dismiss" onClick=${() => remove(one.id)}>✕</button>
      </div>`,
    )}
  </div>`;
};
