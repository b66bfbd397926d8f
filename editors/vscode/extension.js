// Starts `kross lsp` for YAML files, and passes the settings on to it.

const path = require("path");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

/** @type {LanguageClient | undefined} */
let client;

/** The settings, with the paths of `kross.crds` made absolute. */
function settings() {
  const { crds, kubernetes, unknownKinds, deferredChecks } = vscode.workspace.getConfiguration("kross");
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
  return {
    crds: crds.map((given) => (path.isAbsolute(given) ? given : path.join(folder, given))),
    kubernetes,
    unknownKinds,
    deferredChecks,
  };
}

async function start() {
  const command = vscode.workspace.getConfiguration("kross").get("path") || "kross";
  client = new LanguageClient(
    "kross",
    "kross",
    { command, args: ["lsp"] },
    {
      documentSelector: [
        { scheme: "file", language: "yaml" },
        { scheme: "untitled", language: "yaml" },
      ],
      initializationOptions: settings(),
    },
  );
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    vscode.window.showErrorMessage(
      `kross: cannot start \`${command} lsp\`: ${error.message}. Set \`kross.path\` to the kross program.`,
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("kross.restart", async () => {
      await stop();
      await start();
    }),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (event.affectsConfiguration("kross.path")) {
        await stop();
        await start();
      } else if (event.affectsConfiguration("kross")) {
        await client?.sendNotification("workspace/didChangeConfiguration", { settings: settings() });
      }
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
