// Approvals: calls and questions of agents that wait for a person, and the grants that let further calls pass.
import { html, useState } from "../../lib.js";
import { linkToken, post } from "../../core/api.js";
import { useGet } from "../../core/live.js";
import { query } from "../../core/router.js";
import { Instant, plural, Relative } from "../../core/words.js";
import { ResourceList } from "../../ui/resources.js";
import { Badge, Button, ConfirmButton, Empty, Failure, Field, Form, JsonView, Line, Loaded, Page, Tabs, Text, toast } from "../../ui/ui.js";
import { atFields, fitsForm, readSchema, SchemaFields } from "../../ui/schema_form.js";

const PATH = "/api/defaults/approvals/";
const GRANTS = "/api/defaults/approval-grants/";
const HOME = "/console/approvals";
const EVENTS = ["approval.*", "notification.created"];
const EVERY_SECONDS = 15; // a call that is being made has no events of its own
const STATES = {
  pending: ["waits for a person", "warn"],
  due: ["decided", ""],
  calling: ["is being called", ""],
  waiting: ["waits for its result", ""],
  done: ["done", "good"],
  failed: ["failed", "bad"],
  denied: ["denied", "bad"],
  expired: ["expired", "bad"],
  withdrawn: ["withdrawn", ""],
};
const KINDS = { approval: "approval", question: "question", result: "result", input: "question of a tool" };
const pretty = (value) => JSON.stringify(value, null, 2);

/** Show what an agent waits for, on one line. */
export const Title = ({ call }) => html`<${Line} value=${call.question || call.tool} max=${90} />`;

const State = ({ call }) => html`<${Badge} tone=${STATES[call.state][1]}>${STATES[call.state][0]}<//>`;

// What a decision means, before somebody makes it.

const asksOnce = (call) => call.approval === "first_use";
const covered = {
  "": ({ call }) => (asksOnce(call) ? `The tool asks once: later calls of ${call.tool} by this agent pass without asking, whatever their arguments.` : "It covers this one call. The next one asks again."),
  exact: ({ call, edited }) => `Later calls of ${call.tool} by this agent pass without asking if they have exactly ${edited ? "the edited" : "these"} arguments.`,
  schema: ({ call }) => `Later calls of ${call.tool} by this agent pass without asking if their arguments fit the schema. {} lets every call pass.`,
};

const bounds = ({ until, max_uses: uses }) => {
  if (!until && !uses) return "There is no end: revoke it under Grants.";
  return `It ends ${[until && `at ${until}`, uses && `after ${plural(uses, "call")}`].filter(Boolean).join(" or ")}, or when it is revoked under Grants.`;
};

/** Return a schema that the arguments fit: numbers up to the present ones, all else as it is. */
const schemaFor = (given) => ({
  type: "object",
  properties: Object.fromEntries(
    Object.entries(given).map(([name, value]) => [name, typeof value === "number" ? { type: "number", minimum: 0, maximum: value } : { const: value }]),
  ),
  required: Object.keys(given),
  additionalProperties: false,
});

const GrantFields = ({ call, typed }) => {
  const kind = typed.grant ?? "";
  const options = [["", asksOnce(call) ? "all later calls" : "this call only"], ["exact", "also later calls with exactly these arguments"], ["schema", "also later calls whose arguments fit a schema"]];
  return html`<${Field} label="It covers" name="grant" type="select" options=${options} value="" />
    ${kind === "schema" && html`<${Field} label="Schema of the arguments" name="schema" type="json" rows=${9} value=${pretty(schemaFor(call.arguments))} />`}
    ${kind && html`<${Field} label="Until" name="until" type="datetime" placeholder="2027-01-31T18:00" help="UTC. Blank: without end." />
      <${Field} label="At most so many calls" name="max_uses" type="number" min="1" step="1" help="Blank: any number." />`}
    <p class="hint" role="status">${covered[kind]({ call, edited: "arguments" in typed })} ${(kind || asksOnce(call)) && bounds(typed)}</p>`;
};

/** Return what to send for an approval with these values of the form. */
const approvalOf = ({ note, arguments: edited, grant, schema, until, max_uses }) => ({
  approve: true,
  note,
  ...(edited !== undefined && { arguments: edited }),
  ...(grant && { grant: { arguments: grant === "exact" ? "exact" : schema, until: until || null, max_uses } }),
});

/** Bring the messages about a grant to the fields of the form. */
const grantErrors = (error) => {
  const { grant, ...fields } = error.fields ?? {};
  if (grant === undefined) return error;
  const { arguments: schema, ...others } = Array.isArray(grant) ? { arguments: grant } : grant;
  return Object.assign(error, { fields: { ...fields, ...others, ...(schema && { schema }) } });
};

const Deny = ({ decide, children }) => html`<${Button} kind="danger" run=${({ target }) => decide({ approve: false, note: target.closest("form").elements.note.value })}>${children}<//>`;

const Approve = ({ call, decide }) => {
  const [typed, setTyped] = useState({});
  const [isEditing, setEditing] = useState(false);
  const save = async (values) => {
    try {
      await decide(approvalOf(values));
    } catch (error) {
      throw grantErrors(error);
    }
  };
  return html`<section class="card">
    <h2>Decide</h2>
    <ul class="resource-words">
      <li><b>Approve</b>: the service calls <${Line} value=${call.tool} max=${60} /> once, with exactly ${isEditing ? "the arguments as you edit them" : "these arguments"}, and wakes the agent with the result.</li>
      <li><b>Deny</b>: nothing is called. The agent wakes and reads that a person said no, with your note.</li>
    </ul>
    <${Form} save=${save} submit="Approve" onInput=${setTyped} actions=${html`<${Deny} decide=${decide}>Deny<//>
      <button type="button" class="quiet" aria-expanded=${isEditing} onClick=${() => setEditing(!isEditing)}>${isEditing ? "Keep the arguments" : "Edit the arguments"}</button>`}>
      ${isEditing && html`<${Field} label="Arguments" name="arguments" type="json" rows=${9} value=${pretty(call.arguments)} help="They are checked against the tool's parameters." />`}
      <${Field} label="Note" name="note" type="textarea" rows=${2} help="The agent reads it." />
      <${GrantFields} call=${call} typed=${typed} />
    <//>
  </section>`;
};

// The answer to a question: a form made from its schema, else a text, or JSON.

const FORM = "form";
const wrapped = (schema) => ({ type: "object", properties: { answer: { title: "Answer", ...schema } }, required: ["answer"] });

const isText = (schema) => !schema || (schema.type === "string" && Object.keys(schema).length === 1);

const AnswerFields = ({ schema, canShow }) => {
  if (isText(schema)) return html`<${Field} label="Answer" name="answer" type="textarea" rows=${5} />`;
  if (canShow) return html`<${SchemaFields} schema=${wrapped(schema)} path=${FORM} />`;
  return html`<p class="muted">The schema says more than a form can show, so the answer is written as JSON.</p>
    <${JsonView} value=${schema} /><${Field} label="Answer" name="answer" type="json" rows=${8} />`;
};

const Answer = ({ call, decide }) => {
  const schema = call.answer_schema;
  const canShow = !isText(schema) && fitsForm(wrapped(schema), undefined);
  const save = async (values) => {
    const answer = canShow ? readSchema(wrapped(schema), values, FORM).answer : values.answer;
    try {
      await decide({ answer, note: values.note });
    } catch (error) {
      if (!canShow) throw error;
      const { fields } = atFields(error, "answer");
      throw Object.assign(error, { fields: Object.fromEntries(Object.entries(fields).map(([name, text]) => [`${FORM}.${name}`, text])) });
    }
  };
  return html`<section class="card">
    <h2>Answer</h2>
    <ul class="resource-words">
      <li><b>Send the answer</b>: the agent wakes and reads it. It can be sent once.</li>
      <li><b>Decline</b>: the agent wakes and reads that nobody answers, with your note.</li>
    </ul>
    <${Form} save=${save} submit="Send the answer" actions=${html`<${Deny} decide=${decide}>Decline<//>`}>
      <${AnswerFields} schema=${schema} canShow=${canShow} />
      <${Field} label="Note" name="note" type="textarea" rows=${2} help="The agent reads it." />
    <//>
  </section>`;
};

// One call: what is asked, who asks, and what came of it.

const Asker = ({ call, isLink }) => {
  const name = html`<${Line} value=${call.agent_name} max=${80} />`;
  if (isLink) return name;
  return html`<a href="/console/agents/${call.agent}">${name}</a>
    ${call.run && html` in <a href="/console/agents/${call.agent}/runs/${call.run}">this run</a>, which says why`}`;
};

const Facts = ({ call, isLink }) => html`<dl class="facts">
  <dt>State</dt><dd><${State} call=${call} /> ${call.outcome && html`<${Text} value=${call.outcome} />`}</dd>
  <dt>Asked by</dt><dd><${Asker} call=${call} isLink=${isLink} /></dd>
  ${call.tool && call.kind !== "question" && html`<dt>Tool</dt><dd>${call.adapter && !isLink ? html`<a href="/console/tools/${call.adapter}"><${Line} value=${call.tool} max=${80} /></a>` : html`<${Line} value=${call.tool} max=${80} />`}</dd>`}
  <dt>Asked</dt><dd><${Relative} at=${call.created_at} />, <${Instant} at=${call.created_at} style="full" /></dd>
  <dt>Expires</dt><dd>${call.expires_at ? html`<${Relative} at=${call.expires_at} />, <${Instant} at=${call.expires_at} style="full" />` : "never"}</dd>
  ${call.state === "pending" && html`<dt>May decide</dt><dd>${{ member: "members, admins and owners", admin: "admins and owners", owner: "owners" }[call.approvers]}</dd>`}
  ${call.decided_at && html`<dt>Decided</dt><dd><${Instant} at=${call.decided_at} style="full" /> by ${{ link: "the link of a webhook", key: "an API key", user: "a person" }[call.decided_by?.type] ?? "the service"}</dd>`}
  ${call.note && html`<dt>Note</dt><dd><${Text} value=${call.note} /></dd>`}
</dl>`;

/** Return whether a number in this JSON is too large for a browser, which rounds it. */
const isRounded = (value) => (typeof value === "object" ? Object.values(value ?? {}).some(isRounded) : Number.isInteger(value) && !Number.isSafeInteger(value));

const Contents = ({ call }) => html`
  ${isRounded(call.arguments) && html`<p class="error" role="alert">A number in the arguments is too large for a browser, and shown rounded. Read this call over the API, and do not edit its arguments here.</p>`}
  ${call.question && html`<section class="card"><h2>Question</h2><${Text} value=${call.question} /></section>`}
  ${call.kind !== "question" && html`<section class="card"><h2>Arguments</h2><${JsonView} value=${call.arguments} /></section>`}
  ${call.approved_arguments !== null && html`<section class="card"><h2>Arguments as a person has edited them</h2><${JsonView} value=${call.approved_arguments} /></section>`}
  ${call.answer !== null && html`<section class="card"><h2>Answer</h2><${JsonView} value=${call.answer} /></section>`}
`;

const Detail = ({ id }) => {
  const isLink = linkToken() !== null;
  const path = `${PATH}${encodeURIComponent(id)}/`;
  const read = useGet(path, {}, { events: EVENTS });
  const [decided, setDecided] = useState(null); // a link shows nothing any more once its call is decided
  const decide = async (decision) => {
    setDecided(await post(`${path}decide/`, decision));
    toast("The agent is told.");
    if (!isLink) read.reload();
  };
  const shown = (isLink && decided) || read.data || decided;
  const Decide = shown?.kind === "approval" ? Approve : Answer;
  const title = shown ? shown.question || `May the agent call ${shown.tool}?` : "Approval";
  const away = isLink && html`<a href="${HOME}/${id}" target="_self">Open it in the console</a>`;
  if (!shown && read.error) return html`<${Page} title="Approval" actions=${away}><${Failure} error=${read.error} retry=${!isLink && read.reload} /><//>`;
  return html`<${Page} title=${title} actions=${away}>
    <${Loaded} of=${{ ...read, data: shown, error: decided ? null : read.error }}>
      ${(call) => html`<div class="stack">
        <section class="card"><${Facts} call=${call} isLink=${isLink} /></section>
        <${Contents} call=${call} />
        ${call.state === "pending" && html`<${Decide} key=${call.id} call=${call} decide=${decide} />`}
      </div>`}
    <//>
  <//>`;
};

// The lists.

const columns = () => [
  { title: "What", cell: (call) => html`<a href="${HOME}/${call.id}"><${Title} call=${call} /></a>` },
  { title: "Agent", cell: (call) => html`<a href="/console/agents/${call.agent}"><${Line} value=${call.agent_name} max=${50} /></a>` },
  { title: "Kind", cell: ({ kind }) => KINDS[kind] },
  { title: "Asked", cell: (call) => html`<${Relative} at=${call.created_at} />` },
  { title: "Expires", cell: (call) => (call.expires_at ? html`<${Relative} at=${call.expires_at} />` : "never") },
];

const withState = () => [...columns(), { title: "State", cell: (call) => html`<${State} call=${call} />` }];

const coverage = ({ arguments: covers, is_for_present_tool: isPresent }) => {
  if (!isPresent) return "nothing: the tool has changed";
  if (covers === "exact") return "exactly the arguments of its call";
  return Object.keys(covers).length ? `arguments that fit ${JSON.stringify(covers)}` : "any arguments";
};

const grantColumns = (reload) => [
  { title: "Tool", cell: ({ tool, call }) => html`<a href="${HOME}/${call}"><${Line} value=${tool} max=${60} /></a>` },
  { title: "Agent", cell: ({ agent, agent_name: name }) => html`<a href="/console/agents/${agent}"><${Line} value=${name} max=${50} /></a>` },
  { title: "Lets pass", cell: (grant) => html`<${Line} value=${coverage(grant)} max=${160} />` },
  { title: "Until", cell: ({ until }) => html`<${Instant} at=${until} />` },
  { title: "Used", number: true, cell: ({ used_count: used, max_uses: most }) => (most ? `${used} of ${most}` : used) },
  {
    title: "Actions",
    cell: ({ id, revoked_at: revoked }) =>
      revoked
        ? html`revoked <${Instant} at=${revoked} />`
        : html`<${ConfirmButton} kind="quiet" question="Its calls ask again." run=${async () => (await post(`${GRANTS}${id}/revoke/`), toast("Revoked."), reload())}>Revoke<//>`,
  },
];

const LISTS = {
  pending: ["Nothing waits for a person", "Calls of tools that need an approval, and questions of agents, appear here."],
  all: ["No agent has asked anything yet", "A tool asks if its approval says so: see its settings under Tools."],
  grants: ["There is no grant", "Whoever approves a call can let later calls pass, too."],
};

const List = () => {
  const tab = query.value.tab in LISTS ? query.value.tab : "pending";
  const tabs = [["pending", "Waiting", HOME], ["all", "All", `${HOME}?tab=all`], ["grants", "Grants", `${HOME}?tab=grants`]].map(([id, label, href]) => ({ id, label, href }));
  const [title, text] = LISTS[tab];
  const empty = html`<${Empty} title=${title}><p>${text}</p><//>`;
  const shared = { events: EVENTS, every: EVERY_SECONDS, empty, keep: () => true };
  return html`<${Page} title="Approvals">
    <${Tabs} tabs=${tabs} current=${tab} label="Parts of this page" />
    ${tab === "grants"
      ? html`<${ResourceList} key=${tab} path=${GRANTS} columns=${grantColumns} text=${({ tool, agent_name: name }) => `${tool} ${name}`} label="Grants" ...${shared} />`
      : html`<${ResourceList} key=${tab} path=${PATH} filters=${tab === "pending" ? { state: "pending" } : {}} columns=${tab === "pending" ? columns : withState}
          text=${({ tool, question, agent_name: name }) => `${tool} ${question} ${name}`} open=${({ id }) => `${HOME}/${id}`} label="Approvals" ...${shared} />`}
  <//>`;
};

/** Show what waits for a person, or one call or question with the decision. */
export default function Approvals({ id }) {
  return id ? html`<${Detail} id=${id} key=${id} />` : html`<${List} />`;
}
