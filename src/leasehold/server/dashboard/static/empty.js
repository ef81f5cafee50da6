// What an empty view says: that there is nothing, and the command that changes it.

import { el } from "./dom.js";

const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`); // for a shell

// The options come before a program that is run: `leasehold run issue:42 --url … -- ./work.sh`.
function nextStep(says, command, program = "") {
  return [says, el("code", { class: "step" }, `${command} --url ${location.origin}${program}`)];
}

export const nothingHeld = () => nextStep("No lease is held. Acquire one:", "leasehold acquire issue:42");
export const notHeld = (name, space) => nextStep("No lease is held on it. Acquire it:", `leasehold acquire ${quoted(name)}${space && space !== "default" ? ` --space ${quoted(space)}` : ""}`);
export const nobodyWaits = () => nextStep("No request waits. Wait for a lease that another holder has:", "leasehold acquire issue:42 --wait 10m");
export const noRuns = () => nextStep("No lease was held in this time. Choose a longer one, or run something under a lease:", "leasehold run issue:42", " -- ./work.sh");
