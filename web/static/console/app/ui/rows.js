// Long lists: only the rows that can be seen are in the page.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib.js";

const AROUND = 8; // rows above and below what is seen

/** Show `count` rows of a fixed height in a box that scrolls.
 *
 * `row(index)` returns one; `selected` (an index) is kept in view; `onEnd` is called when fewer than `ahead` rows follow,
 * and `onView(first, last)` when other rows are shown.
 */
export const VirtualRows = ({ count, height, row, selected = -1, onEnd, onView, ahead = AROUND, label, role = "list", ...rest }) => {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const measure = () => {
    const { scrollTop, clientHeight } = box.current;
    setView((old) => (old.top === scrollTop && old.height === clientHeight ? old : { top: scrollTop, height: clientHeight }));
  };
  useLayoutEffect(() => {
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    measure();
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (selected < 0) return;
    const { scrollTop, clientHeight } = box.current;
    const top = selected * height;
    if (top < scrollTop) box.current.scrollTop = top;
    else if (top + height > scrollTop + clientHeight) box.current.scrollTop = top + height - clientHeight;
  }, [selected, height]);
  const first = Math.max(0, Math.floor(view.top / height) - AROUND);
  const last = Math.min(count, Math.ceil((view.top + view.height) / height) + AROUND);
  useEffect(() => {
    if (last >= count - ahead) onEnd?.();
  }, [last, count]);
  useEffect(() => onView?.(first, last), [first, last]);
  const rows = [];
  for (let index = first; index < last; index += 1) {
    const place = { position: "absolute", top: `${index * height}px`, height: `${height}px`, left: 0, right: 0 };
    rows.push(html`<div key=${index} class="virtual-row" style=${place} role=${role === "list" ? "listitem" : undefined}>${row(index)}</div>`);
  }
  return html`<div ref=${box} class="virtual" role=${role} aria-label=${label} tabindex="0" onScroll=${measure} ...${rest}>
    <div class="virtual-all" style=${{ height: `${count * height}px` }} role="presentation">${rows}</div>
  </div>`;
};
