// One stream of events for the whole tab. It resumes after the last event that it has seen, so nothing is missing or
// doubled; while the tab is hidden it is closed, because browsers open few connections to one host.
import { effect, signal, useEffect, useRef, useState } from "../lib.js";
import { expireSession, get, getPage, isOperator, send, session } from "./api.js";

const SILENT_MS = 40_000; // the service sends something every 15 s
const RETRY_MS = [500, 1000, 2000, 4000];

/** `{state: "off"|"connecting"|"live"|"reconnecting", asOf}`: whether the page follows the service. */
export const live = signal({ state: "off", asOf: null });
/** Whether the user has stopped the page from changing. */
export const isFrozen = signal(false);

const listeners = new Set();
let lastId = null;
let missedWhileFrozen = false;
let stream = null;

/** Call back for each event of these types (`run.*` for a family), and with null when all must be read again. */
export const onEvents = (types, callback) => {
  const listener = { types, callback };
  listeners.add(listener);
  return () => listeners.delete(listener);
};

const fits = (types, type) =>
  types.some((one) => one === "*" || one === type || (one.endsWith(".*") && type.startsWith(one.slice(0, -1))));

const dispatch = (event) => {
  if (isFrozen.value) {
    missedWhileFrozen = true;
    return;
  }
  for (const { types, callback } of [...listeners]) {
    if (event === null || fits(types, event.type)) callback(event);
  }
};

/** Stop the page from changing, or let it go on with what it has missed. */
export const toggleFrozen = () => {
  isFrozen.value = !isFrozen.value;
  if (!isFrozen.value && missedWhileFrozen) {
    missedWhileFrozen = false;
    dispatch(null);
  }
};

const show = (state) => {
  const asOf = state === "live" ? new Date().toISOString() : live.peek().asOf;
  live.value = { state, asOf };
};

const handleFrame = (frame) => {
  let data = "";
  let type = "";
  for (const line of frame.split("\n")) {
    if (line.startsWith("id:")) lastId = line.slice(3).trim();
    else if (line.startsWith("event:")) type = line.slice(6).trim();
    else if (line.startsWith("data:")) data += line.slice(5);
  }
  if (type === "reset") dispatch(null);
  else if (data) dispatch(JSON.parse(data));
};

const readFrames = async (body, heard) => {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const frames = (rest + value).split("\n\n");
    rest = frames.pop();
    frames.forEach(handleFrame);
    show("live");
  }
};

const connectOnce = async (signal, abort) => {
  let timer;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(abort, SILENT_MS);
  };
  try {
    heard();
    const path = isOperator.peek() ? "/status/events/" : "/api/events/";
    const headers = { Accept: "text/event-stream", ...(lastId ? { "Last-Event-ID": lastId } : {}) };
    const response = await send("GET", path, { signal, headers });
    if (response.status === 401) expireSession();
    if (!response.ok) throw new Error(`status ${response.status}`);
    const isFirst = lastId === null;
    show("live");
    if (isFirst) dispatch(null); // changes between the first reads and the stream
    await readFrames(response.body, heard);
  } finally {
    clearTimeout(timer);
  }
};

const follow = async (own) => {
  for (let tries = 0; stream === own; tries += 1) {
    const began = Date.now();
    try {
      own.connection = new AbortController();
      await connectOnce(own.connection.signal, () => own.connection.abort());
    } catch {
      // the loop reconnects
    }
    if (stream !== own) return;
    if (Date.now() - began > 5000) tries = 0;
    show("reconnecting");
    await new Promise((done) => setTimeout(done, RETRY_MS[Math.min(tries, RETRY_MS.length - 1)]));
  }
};

const open = () => {
  if (stream || document.hidden || !session.peek()) return;
  stream = {};
  show(lastId ? "reconnecting" : "connecting");
  follow(stream);
};

const close = () => {
  const closed = stream;
  stream = null;
  closed?.connection?.abort();
};

/** Follow the service while somebody is signed in and the tab is visible; call once. */
export const startLive = () => {
  let token = null;
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  effect(() => {
    const next = session.value?.token ?? null;
    if (next === token) return;
    token = next;
    close();
    lastId = null;
    if (token) open();
    else show("off");
  });
};

// What a screen shows, read from the API and read again when events say that it has changed.

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

// A long list that stays in its order: rows change in place, and whatever would move is counted until it is asked for.

const PAUSE_MS = 1000; // between two refreshes
const ROWS_RETRY_MS = 2000;
const MAX_REFRESHED = 50; // rows of one request

class Rows {
  constructor(spec, draw) {
    Object.assign(this, { spec, draw, rows: [], places: new Map(), stale: new Set(), moved: new Set() });
    Object.assign(this, { view: [0, 0], total: null, next: null, error: null, isLoading: false, hasLoaded: false });
  }

  /** The rows, or null before they have been read. */
  get data() {
    return this.hasLoaded ? this.rows : null;
  }

  stop() {
    this.isStopped = true;
    this.abort?.abort();
    clearTimeout(this.timer);
    clearTimeout(this.retry);
  }

  async load(query = this.spec.query) {
    const isFirst = query === this.spec.query;
    if (this.isStopped || (this.isLoading && !isFirst)) return;
    this.abort?.abort();
    const own = (this.abort = new AbortController());
    this.isLoading = true;
    this.draw();
    try {
      const { items, next, headers } = await getPage(this.spec.path, query, own.signal);
      if (own !== this.abort) return;
      if (isFirst) this.clear(headers.get("X-Total-Count"));
      this.append(items);
      Object.assign(this, { next, error: null, hasLoaded: true });
    } catch (error) {
      if (own !== this.abort || this.isStopped) return;
      this.error = error;
      if (error.status === 0 || error.status === 503) this.retry = setTimeout(() => this.load(query), ROWS_RETRY_MS);
    }
    this.isLoading = false;
    if (this.stale.size) this.schedule();
    this.draw();
  }

  clear(total) {
    this.rows = [];
    this.places.clear();
    this.moved.clear();
    this.total = total === null ? null : Number(total);
  }

  append(items) {
    for (const item of items) {
      const id = this.spec.idOf(item);
      if (this.places.has(id)) continue; // its value has changed between the two pages
      this.places.set(id, this.rows.length);
      this.rows.push(item);
    }
  }

  note(event) {
    if (event === null) {
      for (const id of this.places.keys()) this.stale.add(id);
      this.hasNew = true;
    } else {
      const id = this.spec.idIn(event);
      if (this.places.has(id) || this.isLoading) this.stale.add(id);
      else if (!this.hasLoaded || !this.spec.isNew(event)) return;
      else {
        this.moved.add(id);
        this.hasNew = true;
      }
      this.draw();
    }
    this.schedule();
  }

  see(first, last) {
    this.view = [first, last];
    if (this.stale.size) this.schedule();
  }

  schedule(pause = PAUSE_MS) {
    if (this.isStopped) return;
    this.timer ??= setTimeout(() => this.refresh(), Math.max(0, (this.refreshedAt ?? 0) + pause - Date.now()));
  }

  async refresh() {
    this.timer = null;
    this.refreshedAt = Date.now();
    const canMove = this.spec.isNewestFirst && this.view[0] === 0 && !document.querySelector(".virtual:hover");
    const mustLoad = this.hasNew && canMove && !isFrozen.peek();
    this.hasNew = false;
    if (mustLoad) {
      this.load();
      return;
    }
    const seen = this.rows.slice(...this.view).map(this.spec.idOf).filter((id) => this.stale.has(id));
    if (!seen.length || isFrozen.peek()) return;
    const ids = seen.slice(0, this.spec.batch ?? MAX_REFRESHED);
    ids.forEach((id) => this.stale.delete(id));
    try {
      const found = new Map((await this.spec.read(ids)).map((row) => [this.spec.idOf(row), row]));
      if (this.isStopped) return;
      for (const id of ids) this.replace(id, found.get(id));
      this.draw();
    } catch {
      ids.forEach((id) => this.stale.add(id));
    }
    if (this.stale.size) this.schedule();
  }

  remove(id) {
    this.replace(id, null);
    this.moved.delete(id);
    this.draw();
  }

  put(row) {
    this.replace(this.spec.idOf(row), row);
    this.draw();
  }

  replace(id, row) {
    const place = this.places.get(id);
    if (place === undefined) return;
    const old = this.rows[place];
    if (!row || this.spec.isMoved(old, row)) this.moved.add(id);
    this.rows[place] = row ?? { ...old, isGone: true };
  }
}

/** Read a list page by page, and keep it fresh without moving a row.
 *
 * `spec`: `path`, `query`, `idOf(row)`, `types` of events, `idIn(event)` (of the row that it is about),
 * `isNew(event)`, `read(ids)` (a promise of these rows) for at most `batch` of them, `isMoved(old, row)`, and
 * `isNewestFirst`: new rows appear by themselves while the reader is at the top and points at none. The answer has
 * `rows` (in `data`, too, once they have been read), `total`, `error`, `isLoading`, `next`, `moved` (a set of ids), and the functions `more`,
 * `reload`, `put(row)`, `remove(id)` and `see(first, last)`.
 */
export const useLiveRows = (spec) => {
  const [, redraw] = useState(0);
  const key = JSON.stringify([spec.path, spec.query]);
  const store = useRef(null);
  if (store.current?.key !== key) {
    store.current?.stop();
    store.current = new Rows(spec, () => redraw((count) => count + 1));
    store.current.key = key;
  }
  const rows = store.current;
  useEffect(() => {
    rows.load();
    return () => rows.stop();
  }, [rows]);
  useEffect(() => onEvents(spec.types, (event) => store.current.note(event)), []);
  rows.more = () => rows.next && rows.load(rows.next);
  rows.reload = () => rows.load();
  return rows;
};

const MAX_NAMES = 100; // agents of one request

/** Return what is known of the agents of the rows, by id; unknown ones are read a hundred at a time. */
export const useAgentsOf = (rows) => {
  const [agents, setAgents] = useState(new Map());
  const missing = [...new Set(rows.map((row) => row.agent))].filter((id) => !agents.has(id)).slice(0, MAX_NAMES);
  useEffect(() => {
    if (!missing.length) return;
    get("/api/cloud/supervisors/", { agent: missing, include_archived: true, limit: MAX_NAMES }).then((found) => {
      const known = new Map(agents);
      for (const id of missing) known.set(id, null);
      for (const one of found) known.set(one.agent, one);
      setAgents(known);
    }, () => {});
  }, [missing.join()]);
  return agents;
};
