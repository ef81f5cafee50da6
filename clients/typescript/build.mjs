// Build what CommonJS programs load into dist/: the same modules and types, for `require`. `npm pack` runs it.

import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "dist");
const compiler = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc");
rmSync(dist, { recursive: true, force: true });
const sources = readdirSync(join(here, "src")).filter((name) => name.endsWith(".js")).map((name) => join(here, "src", name));
const options = ["--allowJs", "--module", "commonjs", "--target", "es2022", "--lib", "es2023,dom,dom.iterable", "--skipLibCheck"];
execFileSync(process.execPath, [compiler, ...options, "--types", "", "--ignoreConfig", "--outDir", dist, ...sources], { stdio: "inherit" });
for (const name of ["index", "openapi"]) {
  const types = readFileSync(join(here, "src", `${name}.d.ts`), "utf8");
  writeFileSync(join(dist, `${name}.d.cts`), types.replaceAll("./openapi.js", "./openapi.cjs"));
}
writeFileSync(join(dist, "package.json"), '{ "type": "commonjs" }\n');
