// Actions on many agents: calls of the service until nothing is left, and what undoes them.
import { post } from "../../core/api.js";
import { plural } from "../../core/words.js";

const PATH = "/api/cloud/agents/actions/";
const MAX_IDS = 1000; // that one call takes

/** For each action its button, what it will do, and what it has done; agents follow. */
export const WORDS = {
  pause: ["Pause", "pause", "Paused"],
  resume: ["End pause", "end the pause of", "Ended the pause of"],
  stop: ["Stop", "stop", "Stopped"],
  archive: ["Archive", "archive", "Archived"],
  restore: ["Restore", "restore", "Restored"],
  clear: ["Clear", "clear what is active for", "Cleared what was active for"],
  tag: ["Tag", "tag", "Tagged"],
  untag: ["Remove tag", "take the tag from", "Took the tag from"],
};

const matchOf = (filters) => ({ ...filters, ...(filters.tag && { tag: [filters.tag].flat() }) });

/** Return the bodies of the calls that act on a selection. */
export const bodiesOf = ({ ids, allMatching, match }, details) => {
  if (allMatching) return [{ ...details, match: matchOf(match.filters) }];
  const all = [...ids];
  const parts = Array.from({ length: Math.ceil(all.length / MAX_IDS) }, (_, part) => all.slice(part * MAX_IDS, (part + 1) * MAX_IDS));
  return parts.map((agents) => ({ ...details, agents }));
};

/** Make the calls until nothing is left, or `isOver()`; an error ends them and is in the result. */
export const carryOut = async (bodies, { onPart, isOver } = {}) => {
  const sum = { matched: 0, changed: 0, failures: [], undo: [], canUndo: true, error: null };
  try {
    for (const body of bodies) {
      let after = null;
      do {
        const part = await post(PATH, after ? { ...body, after } : body);
        sum.matched += part.matched;
        sum.changed += part.changed;
        sum.failures.push(...part.failures);
        if (part.undo) sum.undo.push(part.undo);
        else if (part.changed) sum.canUndo = false;
        after = part.next;
        onPart?.({ ...sum });
        if (isOver?.()) return sum;
      } while (after);
    }
  } catch (error) {
    sum.error = error;
  }
  return sum;
};

/** Say what a dry run has found. */
export const announce = (action, { matched, changed }) => {
  const part = changed < matched ? `${changed.toLocaleString("en")} of ` : matched > 1 ? "all " : "";
  if (changed) return `This will ${WORDS[action][1]} ${part}${plural(matched, "agent")}.`;
  return matched === 1 ? "This would change nothing." : `This would change none of ${plural(matched, "agent")}.`;
};

/** Say what was done. */
export const tell = (action, { changed, failures }) => {
  const done = changed ? `${WORDS[action][2]} ${plural(changed, "agent")}.` : "There was nothing to change.";
  return failures.length ? `${done} ${failures.length.toLocaleString("en")} could not be changed.` : done;
};
