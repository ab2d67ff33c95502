// The parts of the vendored libraries that the console uses.
import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { createContext, render } from "../vendor/preact.js";
export { useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
export { computed, effect, signal } from "../vendor/signals.js";

export const html = htm.bind(h);
