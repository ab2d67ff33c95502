// The focus of a screen that begins with a form.
import { useEffect, useRef } from "../lib.js";

/** Return a ref to an element whose first empty field, else its first field, gets the focus when `deps` change. */
export const useFirstField = (deps = []) => {
  const box = useRef(null);
  useEffect(() => {
    const fields = [...(box.current?.querySelectorAll("input, textarea, select") ?? [])];
    (fields.find((one) => !one.value) ?? fields[0])?.focus();
  }, deps);
  return box;
};
