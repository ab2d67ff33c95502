// Copying, also where the page came over plain HTTP and the browser has no clipboard for it.

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
