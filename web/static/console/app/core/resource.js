// What a screen shows, read from the API and read again when events say that it has changed.
import { useEffect, useRef, useState } from "../lib.js";
import { isFrozen, onEvents } from "./live.js";
import { get, getPage } from "./api.js";

const RELOAD_MS = 1000;
const MAX_RELOADED_PAGES = 5;

/** Call back at most once a second for events of these types, of one agent if `agent` is given. */
export const useEvents = (types, callback, agent) => {
  const latest = useRef(callback);
  latest.current = callback;
  useEffect(() => {
    if (!types?.length) return undefined;
    let timer = null;
    let last = 0;
    const fire = () => {
      timer = null;
      last = Date.now();
      latest.current();
    };
    const remove = onEvents(types, (event) => {
      if (event && agent && event.agent && event.agent !== agent) return;
      timer ??= setTimeout(fire, Math.max(0, last + RELOAD_MS - Date.now()));
    });
    return () => {
      remove();
      clearTimeout(timer);
    };
  }, [types?.join(), agent]);
};

/** Read something and keep it fresh: `{data, error, isLoading, reload}`.
 *
 * `load(signal)` returns a promise. Old data stays while new is read; a change of `deps` forgets it.
 * Options: `events` (types that make it read again), `agent`, `every` (seconds between reads).
 */
export const useResource = (load, deps = [], { events, agent, every } = {}) => {
  const [state, setState] = useState({ data: null, error: null, isLoading: true });
  const running = useRef(null);
  const latest = useRef(load);
  latest.current = load;
  const reload = async () => {
    running.current?.abort();
    const own = (running.current = new AbortController());
    setState((old) => ({ ...old, isLoading: true }));
    try {
      const data = await latest.current(own.signal);
      if (!own.signal.aborted) setState({ data, error: null, isLoading: false });
    } catch (error) {
      if (!own.signal.aborted) setState((old) => ({ ...old, error, isLoading: false }));
    }
  };
  useEffect(() => {
    setState({ data: null, error: null, isLoading: true });
    reload();
    const timer = every && setInterval(() => !document.hidden && !isFrozen.peek() && reload(), every * 1000);
    return () => {
      running.current?.abort();
      clearInterval(timer);
    };
  }, deps);
  useEvents(events, reload, agent);
  useEffect(() => {
    if (state.error?.status !== 0 && state.error?.status !== 503) return undefined;
    const timer = setTimeout(reload, 2000);
    return () => clearTimeout(timer);
  }, [state.error]);
  return { ...state, reload };
};

/** Read the answer to a path and a query, like `useResource`. */
export const useGet = (path, query, options) => useResource((signal) => get(path, query, signal), [JSON.stringify([path, query])], options);

/** Read a list page by page: like `useResource`, where `data` is the items so far; `more()` reads the next page. */
export const usePages = (path, query, options) => {
  const next = useRef(null);
  const pages = useRef(1);
  const busy = useRef(false);
  const key = JSON.stringify([path, query]);
  const owner = useRef(key);
  if (owner.current !== key) {
    owner.current = key;
    pages.current = 1;
  }
  const resource = useResource(
    async (signal) => {
      const items = [];
      let wanted = query;
      let read = 0;
      do {
        const page = await getPage(path, wanted, signal);
        items.push(...page.items);
        wanted = page.next;
        read += 1;
      } while (wanted && read < Math.min(pages.current, MAX_RELOADED_PAGES));
      next.current = wanted;
      pages.current = read;
      return { items };
    },
    [key],
    options,
  );
  const [, redraw] = useState(0);
  const more = async () => {
    if (!next.current || busy.current || resource.isLoading) return;
    busy.current = true;
    const asked = owner.current;
    try {
      const page = await getPage(path, next.current);
      if (asked !== owner.current) return;
      resource.data.items.push(...page.items);
      next.current = page.next;
      pages.current += 1;
    } catch {
      // `more` is called again when the reader scrolls
    } finally {
      busy.current = false;
      redraw((count) => count + 1);
    }
  };
  return { ...resource, data: resource.data?.items ?? null, hasMore: next.current !== null, more };
};
