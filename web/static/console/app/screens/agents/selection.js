// The selected agents: by hand, or all that match. Up to 100 of them stand in the address.
import { useRef, useState } from "../../lib.js";
import { query, setQuery } from "../../core/router.js";

const MAX_IN_ADDRESS = 100;

/** Return the selection over `rows` and how it changes; `match` are the filters of the list. */
export const useSelection = (rows, match, total) => {
  const [many, setMany] = useState(null);
  const last = useRef(null);
  const { selected } = query.value;
  const allMatching = selected === "all";
  const ids = allMatching ? new Set() : selected ? new Set(selected.split(",")) : (many ?? new Set());
  const update = (wanted) => {
    const isMany = wanted.size > MAX_IN_ADDRESS;
    setMany(isMany ? wanted : null);
    setQuery({ selected: isMany ? null : [...wanted].join(",") }, { replace: true });
  };
  const toggle = (id, withRange) => {
    const wanted = new Set(allMatching ? rows.map((row) => row.agent) : ids);
    const isAdded = !wanted.has(id);
    const index = rows.findIndex((row) => row.agent === id);
    const from = withRange ? rows.findIndex((row) => row.agent === last.current) : -1;
    const range = from < 0 ? [id] : rows.slice(Math.min(from, index), Math.max(from, index) + 1).map((row) => row.agent);
    for (const one of range) wanted[isAdded ? "add" : "delete"](one);
    last.current = id;
    update(wanted);
  };
  return {
    ids,
    allMatching,
    match: { filters: match },
    count: allMatching ? total : ids.size,
    has: (id) => allMatching || ids.has(id),
    toggle,
    selectLoaded: () => update(new Set(rows.map((row) => row.agent))),
    selectAll: () => setQuery({ selected: "all" }, { replace: true }),
    clear: () => update(new Set()),
  };
};
