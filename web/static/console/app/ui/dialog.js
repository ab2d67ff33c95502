// A window over the page; Escape closes it, and the focus stays inside.
import { html, useEffect, useRef } from "../lib.js";

/** Show a dialog with a title until `close` is called. */
export const Dialog = ({ title, close, wide, children }) => {
  const dialog = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current.showModal();
    return () => before?.focus?.();
  }, []);
  const onClick = (event) => event.target === dialog.current && close();
  return html`<dialog ref=${dialog} class=${wide ? "wide" : ""} aria-label=${title} onClose=${close} onClick=${onClick}>
    <div class="dialog-body">
      <header>
        <h2>${title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick=${close}>✕</button>
      </header>
      ${children}
    </div>
  </dialog>`;
};
