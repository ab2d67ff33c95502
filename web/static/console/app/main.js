// The start of the console: the keyboard, the address and the stream of events, then the page.
import { html, render } from "./lib.js";
import { startKeys } from "./core/keys.js";
import { startLive } from "./core/live.js";
import { startRouter } from "./core/router.js";
import { Shell } from "./shell/shell.js";

startRouter();
startKeys();
startLive();
render(html`<${Shell} />`, document.getElementById("app"));
