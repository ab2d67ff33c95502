// All shared components under one name.
export * from "./basics.js";
export * from "./dialog.js";
export * from "./form.js";
export * from "./json.js";
export * from "./loaded.js";
export * from "./rows.js";
export * from "./table.js";
export * from "./tabs.js";
export * from "./text.js";
export * from "./toast.js";
export { Duration, Instant, Relative } from "../core/time.js";
