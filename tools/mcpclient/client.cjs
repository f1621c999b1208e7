// Plays a script against a server of the Model Context Protocol, with the
// reference client: client.cjs MODULES COMMAND ARG... reads groups of calls from
// stdin, [[{tool, arguments}]], makes those of a group at once and one group
// after the other, and prints {tools, answers: [{text, error}]}.
const [modules, command, ...args] = process.argv.slice(2);
const load = require("module").createRequire(modules + "/");
const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");

async function main() {
  const script = JSON.parse(require("fs").readFileSync(0, "utf8"));
  const client = new Client({ name: "test", version: "1" });
  await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));
  const { tools } = await client.listTools();
  const call = async (step) => {
    try {
      const r = await client.callTool({ name: step.tool, arguments: step.arguments });
      return { text: r.content.map((c) => c.text).join("\n"), error: r.isError === true };
    } catch (e) {
      return { text: String(e), error: true };
    }
  };
  const answers = [];
  for (const group of script) answers.push(...(await Promise.all(group.map(call))));
  await client.close();
  process.stdout.write(JSON.stringify({ tools, answers }));
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
