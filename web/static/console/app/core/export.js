// What leaves the page: copied text and saved files.

// Where the page came over plain HTTP, the browser has no clipboard for it.
const copyBySelection = (text) => {
  const field = document.createElement("textarea");
  field.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (!isCopied) throw new Error("The browser does not let this page copy. Select the text, and copy it yourself.");
};

/** Copy a text to the clipboard. */
export const copyText = async (text) => {
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else copyBySelection(text);
};

/** Save contents as a file of the reader. */
export const saveFile = (blob, name) => {
  const href = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href, download: name }).click();
  setTimeout(URL.revokeObjectURL, 1000, href);
};
