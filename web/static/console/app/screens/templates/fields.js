// The fields of a template, in the groups of its form.
const pairs = (...values) => values.map((value) => [value, value || "as the service"]);
const count = (name, label, help, more) => ({ name, label, help, type: "number", min: 0, step: 1, ...more });

/** Return the groups of fields for a template, or for a new one. */
export const groupsFor = (template) => [
  {
    fields: [
      { name: "name", label: "Name", required: true, maxlength: 255, autofocus: !template },
      { name: "default_model", label: "Model", help: "For new agents that name none, such as builtin/inbox or openai/gpt-5.", maxlength: 255 },
      { name: "description", label: "Description", type: "textarea", rows: 2 },
      { name: "system_prompt", label: "System prompt", type: "textarea", rows: 10, help: "For agents that have none of their own." },
    ],
  },
  {
    title: "Waking and runs",
    fields: [
      count("debounce_window_seconds", "Pause before waking (seconds)", "How long a conversation must pause before it wakes an agent. 0: at once."),
      count("max_turns", "Turns of a run", "0: as the service."),
      { name: "default_reasoning_effort", label: "Reasoning effort", type: "select", options: pairs("none", "minimal", "low", "medium", "high", "xhigh") },
      count("thinking_max_tokens", "Tokens for thinking", "0: no maximum is sent."),
      {
        name: "reply",
        label: "Replies",
        type: "select",
        options: [["tool", "by a tool such as send_message"], ["text", "by the text of the final answer"]],
      },
      {
        name: "carry_over",
        label: "Told of earlier runs",
        type: "select",
        options: [["journal", "the last entries of the journal"], ["transcript", "the whole conversation"], ["none", "nothing"]],
      },
      count("context_tokens", "Tokens of the first message", "0: as the service."),
    ],
  },
  {
    title: "Spending",
    fields: [
      count("max_cost_usd_per_day", "Cap of each agent (US dollars a day)", "Blank: no cap. 0 allows no run.", { step: "any" }),
      { name: "unpriced", label: "Models without a known price", type: "select", options: [["refuse", "refused under a cap"], ["allow", "allowed under a cap"]] },
    ],
  },
  {
    title: "Traces",
    fields: [
      { name: "content", label: "Texts in traces", type: "select", options: [["", "as the service"], ["full", "kept"], ["none", "not kept"]] },
      count("content_days", "Days that texts are kept", "Blank: as the service. 0: as long as the trace."),
    ],
  },
  {
    title: "Code and calls",
    fields: [
      { name: "harness_git_ref", label: "Git reference of the harness", help: "Blank: the newest main.", maxlength: 255 },
      { name: "agent_created_webhook_url", label: "Address told of new agents", help: "Gets a signed request for each. Blank: none." },
      {
        name: "tool_call_secret",
        label: "Secret that signs calls",
        type: "password",
        autocomplete: "new-password",
        nullable: template?.tool_call_secret === null,
        help: template?.tool_call_secret === null ? "A secret is set; only admins see it. Blank: it stays." : "whsec_ and Base64, or any text. Blank: calls are not signed.",
      },
      {
        name: "environment_secrets",
        label: "Secrets for the harness",
        type: "list",
        rows: 2,
        from: (one) => one?.environment_secrets.join("\n"),
        help: "Names of secrets that its code gets as environment variables, one a line.",
      },
    ],
  },
];
