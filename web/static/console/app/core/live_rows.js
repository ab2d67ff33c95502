// A long list that stays in its order: rows change in place, and whatever would move is counted until it is asked for.
import { useEffect, useRef, useState } from "../lib.js";
import { getPage } from "./api.js";
import { isFrozen, onEvents } from "./live.js";

const PAUSE_MS = 1000; // between two refreshes
const RETRY_MS = 2000;
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
      if (error.status === 0 || error.status === 503) this.retry = setTimeout(() => this.load(query), RETRY_MS);
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
