import { render } from "../vendor/preact.js";

render("hostsvc", document.getElementById("app"));
