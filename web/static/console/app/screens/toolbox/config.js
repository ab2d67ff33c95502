// The configuration of an adapter for the agents of a template: a form made from the adapter's schema, or JSON.
import { html, useState } from "../../lib.js";
import { get, patch, post } from "../../core/api.js";
import { useGet, useResource } from "../../core/resource.js";
import { isAdmin } from "../../core/session.js";
import { Field, Form, Loaded, readForm, toast } from "../../ui/ui.js";
import { DeleteButton } from "../../ui/resources.js";
import { atFields, fitsForm, readSchema, SchemaFields } from "../../ui/schema_form.js";

const PATH = "/api/toolbox/adapter-configs/";

const headersOf = (lines) =>
  Object.fromEntries(
    lines.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
      const [name, ...rest] = line.split(":");
      if (!rest.length) throw { fields: { secret_headers: `Write a header, a colon and the name of a secret; got "${line}".` } };
      return [name.trim(), rest.join(":").trim()];
    }),
  );

const linesOf = (headers) => Object.entries(headers ?? {}).map(([name, secret]) => `${name}: ${secret}`).join("\n");

const SecretNames = ({ template }) => {
  const options = { limit: 200 };
  const own = useResource(() => (isAdmin.peek() ? get(`/api/templates/${template}/secrets/`, options) : Promise.resolve([])), [template]);
  const shared = useResource(() => (isAdmin.peek() ? get("/api/organizations/secrets/", options) : Promise.resolve([])));
  const names = new Set([...(own.data ?? []), ...(shared.data ?? [])].map(({ name }) => name));
  return html`<datalist id="secret-names">${[...names].map((name) => html`<option value=${name} />`)}</datalist>`;
};

const Editor = ({ adapter, template, config, reload }) => {
  const schema = adapter.config_schema;
  const isUnreadable = config && config.config === null;
  const [value, setValue] = useState(config?.config ?? undefined);
  const canShow = fitsForm(schema, value);
  const [asJson, setJson] = useState(!canShow);
  const isJson = asJson || !canShow;
  const entered = (values) => (isJson ? values.config : readSchema(schema, values, "config"));
  const save = async (values) => {
    const body = { config: entered(values), secret_headers: headersOf(values.secret_headers) };
    try {
      await (config ? patch(`${PATH}${config.id}/`, body) : post(PATH, { ...body, template, adapter: adapter.id }));
    } catch (error) {
      throw isJson ? error : atFields(error, "config");
    }
    toast("Saved. Tool calls use it at once.");
    reload();
  };
  const toggle = (event) => {
    try {
      setValue(entered(readForm(event.target.form)));
      setJson(!isJson);
    } catch (error) {
      toast(Object.values(error.fields ?? {})[0] ?? error.message, { tone: "bad" });
    }
  };
  const actions = html`${canShow && html`<button type="button" class="quiet" onClick=${toggle}>${isJson ? "Edit as a form" : "Edit as JSON"}</button>`}
    ${config && html`<${DeleteButton} path="${PATH}${config.id}/" question="Calls are sent without a configuration." done=${reload} />`}`;
  return html`<${Form} key=${isJson} save=${save} submit=${config ? "Save" : "Create configuration"} actions=${actions}>
    ${isUnreadable && html`<p class="stale">The stored configuration cannot be decrypted. Set it again.</p>`}
    ${isJson && !canShow && html`<p class="muted">The schema says more than a form can show, so the configuration is edited as JSON.</p>`}
    ${isJson
      ? html`<${Field} name="config" label="Configuration" type="json" rows=${14} value=${JSON.stringify(value ?? {}, null, 2)} />`
      : html`<fieldset class="resource-group">
          ${schema.title && html`<legend><bdi>${schema.title}</bdi></legend>`}
          <${SchemaFields} schema=${schema} value=${value} path="config" />
        </fieldset>`}
    <${Field} name="secret_headers" label="Headers with secrets" type="textarea" rows=${2} value=${linesOf(config?.secret_headers)}
      help="One a line: a header and the name of a secret, such as Authorization: CRM_KEY." />
    <${SecretNames} template=${template} />
  <//>`;
};

/** Show the form of the configuration that a template has for an adapter. */
export const Config = ({ adapter, template }) => {
  const configs = useGet(PATH, { template, adapter: adapter.id });
  return html`<${Loaded} of=${configs}>
    ${([config = null]) => html`<${Editor} key=${config?.updated_at ?? "new"} adapter=${adapter} template=${template} config=${config} reload=${configs.reload} />`}
  <//>`;
};
