// All shared components under one name.
export * from "./basics.js";
export * from "./dialog.js";
export * from "./filters.js";
export * from "./form.js";
export * from "./loaded.js";
export * from "./rows.js";
export * from "./text.js";
export * from "./toast.js";
export { Duration, Instant, Relative } from "../core/time.js";
