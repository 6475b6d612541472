import { registerHooks } from 'node:module'
import { join } from 'node:path'

// Boots an app with a server of MCP, takes a turn without it and one with it, and prints after each whether the package was loaded.
let count = 0
registerHooks({
  load(url, context, next) {
    if (url.includes('@modelcontextprotocol')) count++
    return next(url, context)
  },
})
const { testApp, scriptedModel, call } = await import('#core/testing')
const { default: mcpServers } = await import('../../plugins/mcp/index.ts')
const notes = {
  command: process.execPath,
  args: [
    '--disable-warning=ExperimentalWarning',
    join(import.meta.dirname, '../../plugins/mcp/fixtures/raw-server.ts'),
    'old',
  ],
  oracle: { access: 'everyone' },
}
const app = await testApp({
  plugins: [mcpServers],
  model: scriptedModel(['Yes.', call('load_capability', { names: ['notes'] }), 'Yes.']),
  env: {
    ORACLE_MNEMONIC: 'words of the test of imports',
    MCP_SERVERS: JSON.stringify({ mcpServers: { notes } }),
  },
})
const user = await app.user()
await user.say('Hello')
await app.get('/health')
console.log(`before ${count > 0}`)
await user.say('Notes')
console.log(`after ${count > 0}`)
await app.close()
