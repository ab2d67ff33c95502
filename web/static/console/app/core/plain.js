// Characters that cannot be seen, or that change the order of others: they can make text look like other text.
// Control characters, marks of direction, characters without a width, tags.
export const INVISIBLE =
  /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}])/u;

/** Return the name of a character, such as U+202E. */
export const codePoint = (character) => `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** Return text for places that take no elements, such as options and titles: the names stand for the characters. */
export const plain = (value) =>
  String(value ?? "").split(INVISIBLE).map((part, index) => (index % 2 ? codePoint(part) : part)).join("");
