// SPDX-License-Identifier: BSD-3-Clause
// One scene of the official MCP client for JavaScript: node mcp_sdk.mjs PACKAGES SCENE CONFIG.
// CONFIG is JSON: {"command", "args", "env"} or {"url"}, and "arguments" for the tool's call. Prints one
// line of JSON: what the scene saw. An error that the client reports is part of it.
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [packages, scene, configText] = process.argv.slice(2);
const config = JSON.parse(configText);
const require = createRequire(join(resolve(packages), "here.js"));
const sdk = async (path) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${path}`)));

const { Client } = await sdk("client/index.js");
const { StdioClientTransport } = await sdk("client/stdio.js");
const { StreamableHTTPClientTransport } = await sdk("client/streamableHttp.js");

const seen = { errors: [], progress: [] };
const transport = config.url
  ? new StreamableHTTPClientTransport(new URL(config.url))
  : new StdioClientTransport({ command: config.command, args: config.args, env: config.env });
const client = new Client({ name: "scene", version: "0" });
client.onerror = (error) => seen.errors.push(String(error));

const call = (options) =>
  client.callTool({ name: "run_rollout", arguments: config.arguments }, undefined, {
    onprogress: (p) => {
      seen.progress.push(p);
      options.onphase?.(p.message);
    },
    ...options,
  });

const scenes = {
  async list() {
    seen.server = client.getServerVersion();
    seen.tools = (await client.listTools()).tools;
    await client.ping();
  },
  async rollout() {
    // Shorter than the rollout: only progress keeps the request alive.
    seen.result = await call({ timeout: 8000, resetTimeoutOnProgress: true, maxTotalTimeout: 90000 });
  },
  async plain() {
    seen.result = await client.callTool({ name: "run_rollout", arguments: config.arguments });
  },
  async cancel() {
    const abort = new AbortController();
    const options = { signal: abort.signal, timeout: 90000, resetTimeoutOnProgress: true };
    options.onphase = (message) => {
      if (message.startsWith("agent running")) {
        abort.abort("enough");
      }
    };
    await call(options).catch((error) => (seen.cancelled = String(error)));
    seen.after = (await client.listTools()).tools.length;
  },
};

await client.connect(transport);
seen.session = transport.sessionId ?? null;
await scenes[scene]();
if (config.url) {
  await transport.terminateSession();
}
await client.close();
console.log(JSON.stringify(seen));
