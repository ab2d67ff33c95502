// The window in which a notification is written.
import { html, useState } from "../../lib.js";
import { post } from "../../core/api.js";
import { SOURCES } from "../../core/words.js";
import { AgentPicker, Dialog, Field, Form, toast } from "../../ui/ui.js";
import { MomentField, toInstant, zoneWords } from "./moments.js";

/** Show the form for a new notification. */
export const NewNotification = ({ close, done, agent: given = "" }) => {
  const [agent, setAgent] = useState(given);
  const save = async ({ title, body, source, priority, at }) => {
    if (!agent) throw { message: "Choose the agent: type a part of its name, then take it from the list." };
    const created = await post("/api/defaults/notifications/", { agent, title, body, source, priority, scheduled_for: toInstant(at) });
    toast(priority === "high" && !at ? "Sent. It wakes the agent." : "Sent.");
    close();
    done(created);
  };
  return html`<${Dialog} title="New notification" close=${close}>
    <${Form} save=${save} submit="Send">
      <div class="field"><label for="queue-agent">Agent</label><${AgentPicker} id="queue-agent" label="Agent" placeholder="a part of its name" value=${agent} change=${setAgent} autofocus=${!given} /></div>
      <${Field} label="Title" name="title" autofocus=${given !== ""} />
      <${Field} label="Text" name="body" type="textarea" />
      <div class="queue-pair">
        <${Field} label="Priority" name="priority" type="select" value="high" options=${[["high", "high: wakes the agent"], ["low", "low: wakes nobody"]]} />
        <${Field} label="Source" name="source" type="select" value="portal" options=${Object.entries(SOURCES)} />
      </div>
      <div class="field"><${MomentField} label="Due at (${zoneWords()}), empty for now" name="at" /></div>
    <//>
  <//>`;
};
