// Plays a script against a language server with the client side of VS Code:
// client.cjs MODULES COMMAND ARG... reads steps from stdin and prints what comes
// back, [answer, …], one for each step:
//   {open: uri, text}             opens a document; no answer
//   {edit: uri, find, with}       replaces the first find, incrementally; none
//   {diagnostics: uri, count}     waits until a document has so many; the messages
//   {ask: method, uri, find, params}  a request at the place behind find; its result
//   {apply: method, …}            the same, and the text that its edits make of the document
const [modules, command, ...args] = process.argv.slice(2);
const load = require("module").createRequire(modules + "/");
const rpc = load("vscode-jsonrpc/node");
const lsp = load("vscode-languageserver-protocol");
const { TextDocument } = load("vscode-languageserver-textdocument");

async function main() {
  const script = JSON.parse(require("fs").readFileSync(0, "utf8"));
  const server = require("child_process").spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => server.on("exit", resolve));
  const connection = rpc.createMessageConnection(new rpc.StreamMessageReader(server.stdout), new rpc.StreamMessageWriter(server.stdin));
  const documents = new Map();
  const diagnostics = new Map();
  let wake = () => {};
  connection.onNotification(lsp.PublishDiagnosticsNotification.method, (p) => {
    diagnostics.set(p.uri, p.diagnostics);
    wake();
  });
  connection.onRequest(lsp.RegistrationRequest.method, () => null);
  connection.onError((e) => console.error(e));
  connection.listen();
  const about = await connection.sendRequest(lsp.InitializeRequest.method, {
    processId: process.pid, rootUri: null,
    capabilities: { workspace: { didChangeWatchedFiles: { dynamicRegistration: true }, workspaceEdit: { documentChanges: true } } },
  });
  await connection.sendNotification(lsp.InitializedNotification.method, {});

  const after = (document, find) => {
    const i = document.getText().indexOf(find);
    if (i < 0) throw new Error(`${find} is not in ${document.uri}`);
    return i + find.length;
  };
  const request = (step) => {
    const params = { textDocument: { uri: step.uri }, ...step.params };
    if (step.find) params.position = documents.get(step.uri).positionAt(after(documents.get(step.uri), step.find));
    return connection.sendRequest(step.ask || step.apply, params);
  };
  const answers = [about.serverInfo.name];
  for (const step of script) {
    let answer = null;
    if (step.open) {
      const document = TextDocument.create(step.open, "sage", 1, step.text);
      documents.set(step.open, document);
      await connection.sendNotification(lsp.DidOpenTextDocumentNotification.method, { textDocument: { uri: step.open, languageId: "sage", version: 1, text: step.text } });
    } else if (step.edit) {
      const document = documents.get(step.edit);
      const end = after(document, step.find);
      const range = { start: document.positionAt(end - step.find.length), end: document.positionAt(end) };
      const changes = [{ range, text: step.with }];
      documents.set(step.edit, TextDocument.update(document, changes, document.version + 1));
      diagnostics.delete(step.edit);
      await connection.sendNotification(lsp.DidChangeTextDocumentNotification.method, { textDocument: { uri: step.edit, version: document.version }, contentChanges: changes });
    } else if (step.diagnostics) {
      while ((diagnostics.get(step.diagnostics) || { length: -1 }).length !== step.count) await new Promise((resolve) => (wake = resolve));
      answer = diagnostics.get(step.diagnostics).map((d) => documents.get(step.diagnostics).getText(d.range) + ": " + d.message);
    } else if (step.ask) {
      answer = await request(step).catch((e) => "error: " + e.message);
    } else {
      const edits = await request(step);
      const changes = Array.isArray(edits) ? [{ textDocument: { uri: step.uri }, edits }] : edits.documentChanges;
      answer = Object.fromEntries(changes.map((c) => [c.textDocument.uri, TextDocument.applyEdits(documents.get(c.textDocument.uri), c.edits)]));
    }
    answers.push(answer);
  }
  await connection.sendRequest(lsp.ShutdownRequest.method);
  await connection.sendNotification(lsp.ExitNotification.method);
  const code = await ended;
  connection.dispose();
  process.stdout.write(JSON.stringify({ answers, code }));
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
