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
export const noPools = () => nextStep("No member of a pool is held, and no pool is declared. Acquire a free member:", "leasehold acquire pool://ports/3000-3099 --print value");
export const noElections = () => nextStep("Nobody leads. Campaign for a name, and run a command while you lead:", "leasehold run scheduler --lead", " -- ./schedule.sh");
export const noPlans = () => nextStep("No agent has announced a plan. Announce what you are about to touch:", "leasehold plan path:src/parser issue:42");
export const noRuns = () => nextStep("No lease was held in this time. Choose a longer one, or run something under a lease:", "leasehold run issue:42", " -- ./work.sh");
