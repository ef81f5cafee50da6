// Prints the resource and the id's mark of each key on standard input, for the tests of Python to compare.
import { nameOf } from "../src/flow.js";

let text = "";
for await (const chunk of process.stdin) text += chunk;
const names = [];
for (const key of JSON.parse(text)) names.push(await nameOf(key));
process.stdout.write(JSON.stringify(names));
