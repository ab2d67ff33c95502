// The fields of a form, made from a JSON Schema; one field of JSON where the schema says more than a form can show.
import { html } from "../lib.js";
import { Field } from "./ui.js";

const STRUCTURE = ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "const", "prefixItems", "contains", "propertyNames",
  "patternProperties", "dependentSchemas", "dependentRequired", "unevaluatedProperties", "unevaluatedItems"]; // prettier-ignore
const SCALARS = { string: "string", number: "number", integer: "number", boolean: "boolean" };
const MAX_DEPTH = 4;

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

const isSimple = (schema, depth) => {
  if (!isObject(schema) || depth > MAX_DEPTH || STRUCTURE.some((word) => word in schema)) return false;
  if (Array.isArray(schema.enum)) return schema.enum.every((one) => typeof one !== "object");
  if (schema.type === "array") return isObject(schema.items) && schema.items.type === "string" && isSimple(schema.items, depth);
  if (schema.type !== "object") return typeof schema.type === "string" && schema.type in SCALARS;
  return isObject(schema.properties) && Object.values(schema.properties).every((one) => isSimple(one, depth + 1));
};

const holds = (schema, value) => {
  if (value === undefined || schema.enum) return value === undefined || schema.enum.includes(value);
  if (schema.type === "array") return Array.isArray(value) && value.every((one) => typeof one === "string" && !one.includes("\n"));
  if (schema.type !== "object") return typeof value === SCALARS[schema.type];
  return isObject(value) && Object.entries(value).every(([name, one]) => Object.hasOwn(schema.properties, name) && holds(schema.properties[name], one));
};

/** Return whether a form can show every value that fits the schema, and this one without losing a part of it. */
export const fitsForm = (schema, value) => schema.type === "object" && isSimple(schema, 0) && holds(schema, value);

/** Return the value that the fields of a form make; throw the messages of those that are required and blank. */
export const readSchema = (schema, values, path) => {
  const missing = {};
  const value = read(schema, values, path, missing, true);
  if (Object.keys(missing).length) throw { fields: missing };
  return value;
};

const read = (schema, values, path, missing, isRequired) => {
  if (schema.type === "object" && !schema.enum) return readObject(schema, values, path, missing, isRequired);
  const entered = values[path];
  if (schema.enum) return entered ? JSON.parse(entered) : blank(path, missing, isRequired);
  if (schema.type === "array") {
    const lines = entered.split("\n").map((one) => one.trim()).filter(Boolean);
    return lines.length || isRequired ? lines : undefined;
  }
  if (schema.type === "boolean") return entered || isRequired || schema.default === true ? entered : undefined;
  return entered === "" || entered === null ? blank(path, missing, isRequired) : entered;
};

const blank = (path, missing, isRequired) => {
  if (isRequired) missing[path] = "This field is required.";
  return undefined;
};

const readObject = (schema, values, path, missing, isRequired) => {
  const required = schema.required ?? [];
  const own = {};
  const entries = Object.entries(schema.properties).map(([name, one]) => [
    name,
    read(one, values, `${path}.${name}`, own, required.includes(name)),
  ]);
  const found = entries.filter(([, value]) => value !== undefined);
  if (!found.length && !isRequired) return undefined;
  Object.assign(missing, own);
  return Object.fromEntries(found);
};

/** Return a refusal whose messages of the form "$.a.b: …" stand at the fields that they are about. */
export const atFields = (error, path) => {
  const { [path]: messages, ...fields } = error.fields ?? {};
  if (!Array.isArray(messages)) return error;
  for (const message of messages) {
    const [, place, text] = /^\$((?:\.[^.:\s[]+)*)[^:]*: (.*)$/s.exec(message) ?? [null, "", message];
    fields[path + place] = [...(fields[path + place] ?? []), text];
  }
  return Object.assign(error, { fields });
};

const KINDS = { number: "number", integer: "number", boolean: "checkbox", array: "textarea" };

const helpOf = ({ description, type, format, minimum, maximum }) => {
  const range = [minimum !== undefined && `at least ${minimum}`, maximum !== undefined && `at most ${maximum}`].filter(Boolean).join(", ");
  const hint = type === "array" ? "One a line." : format === "secret" ? "The name of a secret." : "";
  return [description, range, hint].filter(Boolean).join(" · ");
};

const One = ({ schema, value, path, name, isRequired }) => {
  const label = `${schema.title ?? name}${isRequired ? " *" : ""}`;
  const shown = value === undefined ? schema.default : value;
  const rest = { name: path, label, help: helpOf(schema), required: isRequired };
  if (schema.enum) {
    const options = [["", "–"], ...schema.enum.map((one) => [JSON.stringify(one), String(one)])];
    return html`<${Field} ...${rest} type="select" options=${options} value=${shown === undefined ? "" : JSON.stringify(shown)} />`;
  }
  if (schema.type === "object") {
    return html`<fieldset class="resource-group resource-nested">
      <legend>${label}</legend>
      <${SchemaFields} schema=${schema} value=${shown} path=${path} />
    </fieldset>`;
  }
  const isHidden = schema.format === "password" || schema.writeOnly;
  const type = isHidden ? "password" : (KINDS[schema.type] ?? "text");
  const more = isHidden ? { autocomplete: "new-password" } : schema.format === "secret" ? { list: "secret-names" } : {};
  return html`<${Field} ...${rest} ...${more} type=${type} rows=${3} value=${Array.isArray(shown) ? shown.join("\n") : shown} />`;
};

/** Show the fields of an object's schema; their names begin with `path`. */
export const SchemaFields = ({ schema, value, path }) =>
  Object.entries(schema.properties).map(
    ([name, one]) => html`<${One} key=${name} schema=${one} value=${isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined} path=${`${path}.${name}`} name=${name} isRequired=${schema.required?.includes(name)} />`,
  );
