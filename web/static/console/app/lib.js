// The parts of the vendored libraries that the console uses.
import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { Component, createContext, Fragment, render } from "../vendor/preact.js";
export { useCallback, useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
export { batch, computed, effect, signal, useComputed, useSignal, useSignalEffect } from "../vendor/signals.js";

export const html = htm.bind(h);
