// What can be done with the selected agents.

/** Show the actions; `selection` is `{ids: Set, allMatching, match: {filters}, count}`, `done` reads the list again. */
export const ActionBar = () => null;
