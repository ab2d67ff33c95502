// The difference between two texts, line by line.
const MAX_CELLS = 1_000_000;
const AROUND = 3; // unchanged lines around a change

/** Return the changed middle of two lists of lines by their longest common part. */
const changed = (before, after) => {
  const width = after.length + 1;
  const isSmall = before.length * width < MAX_CELLS;
  const common = new Uint16Array(isSmall ? (before.length + 1) * width : 0);
  if (isSmall) {
    for (let i = before.length - 1; i >= 0; i -= 1) {
      for (let j = after.length - 1; j >= 0; j -= 1) {
        const at = i * width + j;
        common[at] = before[i] === after[j] ? common[at + width + 1] + 1 : Math.max(common[at + width], common[at + 1]);
      }
    }
  }
  const found = [];
  let i = 0;
  let j = 0;
  while (i < before.length || j < after.length) {
    const isSame = isSmall && i < before.length && j < after.length && before[i] === after[j];
    const at = i * width + j;
    if (isSame) {
      found.push({ sign: " ", text: before[i++] });
      j += 1;
    } else if (j === after.length || (i < before.length && (!isSmall || common[at + width] >= common[at + 1]))) found.push({ sign: "-", text: before[i++] });
    else found.push({ sign: "+", text: after[j++] });
  }
  return found;
};

/** Return the lines around what differs as `{sign, text}`: "-" only before, "+" only after, "…" left out. */
export const diff = (beforeText, afterText) => {
  const before = beforeText.split("\n");
  const after = afterText.split("\n");
  const shorter = Math.min(before.length, after.length);
  let start = 0;
  while (start < shorter && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < shorter - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const same = (from, to) => before.slice(Math.max(0, from), to).map((text) => ({ sign: " ", text }));
  const [last, stop] = [before.length - end, after.length - end];
  const lines = [...same(start - AROUND, start), ...changed(before.slice(start, last), after.slice(start, stop)), ...same(last, last + AROUND)];
  const isNear = (index) => lines.slice(Math.max(0, index - AROUND), index + AROUND + 1).some(({ sign }) => sign !== " ");
  return lines.flatMap((line, index) => (isNear(index) ? [line] : isNear(index - 1) ? [{ sign: "…", text: "" }] : []));
};
