// The address is the state: the path says which screen, the query says what the user has chosen there.
import { computed, signal } from "../lib.js";
import { plain } from "./words.js";

export const BASE = "/console";

const REPLACE_MS = 100; // browsers limit how often a page may change its address

const read = ({ pathname, search }) => ({ pathname, search, path: pathname.slice(BASE.length).replace(/\/+$/, "") || "/" });
const place = signal(read(location));
let replacement = null;
let timer = null;

/** The path below /console, without a slash at its end. */
export const path = computed(() => place.value.path);
/** The query as an object of strings; a repeated name is a list. */
export const query = computed(() => {
  const found = Object.create(null); // a name such as "constructor" is a name like others
  for (const [name, value] of new URLSearchParams(place.value.search)) {
    found[name] = name in found ? [found[name], value].flat() : value;
  }
  return found;
});

const writeReplacement = () => {
  clearTimeout(timer);
  timer = null;
  if (replacement !== null) history.replaceState(null, "", replacement);
  replacement = null;
};

const replaceSoon = (url) => {
  const isFirst = timer === null;
  replacement = url;
  if (isFirst) writeReplacement();
  timer ??= setTimeout(writeReplacement, REPLACE_MS);
};

const moveTo = (url, replace) => {
  if (url === place.value.pathname + place.value.search) return;
  if (replace) replaceSoon(url);
  else {
    writeReplacement();
    history.pushState(null, "", url);
  }
  place.value = read(new URL(url, location.href));
};

/** Return the address of what the user sees. */
export const currentUrl = () => {
  writeReplacement();
  return location.href;
};

/** Go to an address of the console, such as `/console/agents?tag=vip`. */
export const navigate = (url, { replace = false } = {}) => {
  const next = new URL(url, location.href);
  const isOther = next.pathname !== place.value.pathname;
  moveTo(next.pathname + next.search, replace);
  if (isOther && !replace) scrollTo(0, 0);
};

/** Change parts of the query; null removes one, a list repeats its name. */
export const setQuery = (changes, { replace = false } = {}) => {
  const parameters = new URLSearchParams(place.value.search);
  for (const [name, value] of Object.entries(changes)) {
    parameters.delete(name);
    for (const one of [value].flat()) if (one != null && one !== "") parameters.append(name, one);
  }
  const text = parameters.toString();
  moveTo(place.value.pathname + (text ? `?${text}` : ""), replace);
};

/** Return the values of a pattern such as `/agents/:id/:tab?` in a path, or null. */
export const match = (pattern, actual) => {
  const wanted = pattern.split("/");
  const parts = actual.split("/");
  if (parts.length > wanted.length) return null;
  const values = {};
  for (const [index, name] of wanted.entries()) {
    const part = parts[index];
    if (!name.startsWith(":")) {
      if (part !== name) return null;
    } else if (part === undefined || part === "") {
      if (!name.endsWith("?")) return null;
    } else values[name.replace(/[:?]/g, "")] = decode(part);
  }
  return values;
};

const decode = (part) => {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
};

/** Follow links inside the console without loading the page again; call once. */
export const startRouter = () => {
  addEventListener("popstate", () => {
    replacement = null;
    place.value = read(location);
  });
  addEventListener("pagehide", writeReplacement);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !isPlain || event.defaultPrevented || link.target || link.hasAttribute("download")) return;
    const url = new URL(link.href);
    if (url.origin !== location.origin || !url.pathname.startsWith(BASE) || url.hash) return;
    event.preventDefault();
    navigate(url.pathname + url.search);
  });
};

/** Show the title of a screen in the browser's tab. */
export const setTitle = (title) => {
  document.title = title ? `${plain(title)} · hostsvc` : "hostsvc";
};
