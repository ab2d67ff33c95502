// The keyboard: each screen names its keys, and the help shows them.
import { signal, useEffect, useRef } from "../lib.js";
import { query, setQuery } from "./router.js";

const KEY = "hostsvc.singleKeys";
const SEQUENCE_MS = 1500;

/** Whether keys without Ctrl have an effect; some people's input methods press them by accident. */
export const hasSingleKeys = signal(localStorage.getItem(KEY) !== "off");
/** The bindings in force, newest last: each an object of `{key: {help, run}}`. */
export const layers = signal([]);

/** Switch the single keys on or off. */
export const toggleSingleKeys = () => {
  hasSingleKeys.value = !hasSingleKeys.value;
  localStorage.setItem(KEY, hasSingleKeys.value ? "on" : "off");
};

/** Bind keys while a component is shown: `{n: {help: "New template", run}}`; "g n" is a sequence. */
export const useKeys = (bindings) => {
  const latest = useRef(bindings);
  latest.current = bindings;
  useEffect(() => {
    const layer = { get bindings() { return latest.current; } };
    layers.value = [...layers.peek(), layer];
    return () => (layers.value = layers.peek().filter((one) => one !== layer));
  }, []);
};

/** Bind j, k and Enter to the rows of a list whose selected id is in the address. */
export const useRows = ({ ids, open, name = "row" }) => {
  const selected = query.value[name] ?? null;
  const select = (id) => setQuery({ [name]: id }, { replace: true });
  const move = (step) => {
    if (!ids.length) return;
    const index = ids.indexOf(selected);
    const next = index < 0 ? (step > 0 ? 0 : ids.length - 1) : Math.min(Math.max(index + step, 0), ids.length - 1);
    select(ids[next]);
  };
  useKeys({
    j: { help: "Next row", run: () => move(1) },
    k: { help: "Previous row", run: () => move(-1) },
    Enter: { help: "Open the row", run: () => selected && open?.(selected) },
  });
  return { selected, select };
};

const isTyping = (element) =>
  element?.closest?.("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]") != null;
const isPressable = (element) => element?.closest?.("button, a[href], summary, [role=button], input") != null;

const find = (key) => {
  for (const { bindings } of [...layers.peek()].reverse()) if (bindings[key]) return bindings[key];
  return null;
};

/** Listen to the keyboard; call once. */
export const startKeys = () => {
  let first = "";
  let at = 0;
  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    const withControl = event.ctrlKey || event.metaKey;
    if (event.altKey || event.isComposing || event.defaultPrevented) return;
    if (withControl ? key.length !== 1 : isTyping(target) || !hasSingleKeys.value) return;
    if (key === "Enter" && isPressable(target)) return;
    if (document.querySelector("dialog[open]") && !withControl) return;
    const sequence = first && Date.now() - at < SEQUENCE_MS ? find(`${first} ${key}`) : null;
    const binding = sequence ?? find(withControl ? `Ctrl-${key.toLowerCase()}` : key);
    first = sequence || withControl ? "" : key;
    at = Date.now();
    if (!binding) return;
    event.preventDefault();
    binding.run(event);
  });
};
