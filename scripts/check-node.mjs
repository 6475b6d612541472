// Checks the version of Node before anything else runs. The file is plain JavaScript, so that old versions can run it too.
const [major, minor] = process.versions.node.split('.').map(Number)
if (major < 22 || (major === 22 && minor < 18)) {
  console.error(`
  This is Node ${process.versions.node}; the sources of the oracle runtime need 22.18 or newer.

  "npm ci" brings Node 24 along for npm's scripts. Either install scripts were switched off
  (run "npm ci --ignore-scripts=false"), or this was started without npm (use "npm start").
`)
  process.exit(1)
}
