// A real `leasehold serve` on a port of its own, for as long as a test file runs. No tests in here.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const COMMAND = process.env.LEASEHOLD_COMMAND ? JSON.parse(process.env.LEASEHOLD_COMMAND) : ["leasehold"];

export async function serving(...words) {
  const folder = await mkdtemp(join(tmpdir(), "leasehold-"));
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("LEASEHOLD_")));
  const store = `sqlite:///${folder}/locks.db`;
  const [program, ...first] = COMMAND;
  const child = spawn(program, [...first, "serve", "--store", store, "--port", "0", ...words], {
    env, cwd: folder, stdio: ["ignore", "pipe", "inherit"],
  });
  const failed = once(child, "exit").then(([code]) => { throw new Error(`the server ended with ${code}`); });
  const [line] = await Promise.race([once(createInterface({ input: child.stdout }), "line"), failed]);
  failed.catch(() => {}); // later on that is what is asked of it
  const url = line.split(" ")[1];
  return {
    url,
    async stop() {
      child.kill("SIGTERM");
      if (child.exitCode === null) await once(child, "exit");
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Wait for this instead of sleeping for a fixed time. */
export async function until(condition) {
  const giveUp = Date.now() + 60_000;
  while (!(await condition())) {
    if (Date.now() > giveUp) throw new Error("it never came true");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
