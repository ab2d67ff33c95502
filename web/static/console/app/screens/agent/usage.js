// What an agent uses, day by day.
import { html } from "../../lib.js";
import { Empty } from "../../ui/loaded.js";

/** Show the usage of an agent. */
export default () => html`<${Empty} title="Usage" />`;
