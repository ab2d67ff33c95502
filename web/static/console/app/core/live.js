// One stream of events for the whole tab. It resumes after the last event that it has seen, so nothing is missing or
// doubled; while the tab is hidden it is closed, because browsers open few connections to one host.
import { effect, signal } from "../lib.js";
import { expireSession, isOperator, session } from "./session.js";
import { send } from "./api.js";

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
