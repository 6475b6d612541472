import { registerHooks } from 'node:module'
import { join } from 'node:path'

// Boots an app with servers of MCP, takes a turn without and one with them, asks /mcp, and prints after each whether packages
// were loaded.
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
    // Thirteen, of which one is asked.
    MCP_SERVERS: JSON.stringify({
      mcpServers: {
        notes,
        ...Object.fromEntries(Array.from({ length: 12 }, (_, n) => [`other-${n}`, notes])),
      },
    }),
  },
})
const user = await app.user()
await user.say('Hello')
await app.get('/health')
console.log(`before ${count > 0}`)
await user.say('Notes')
console.log(`after ${count > 0}`)
const ofClients = count
const { body } = await user.post('/keys', { name: 'a client' })
const message = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
await app.post('/mcp', message, {
  authorization: `Bearer ${body.key}`,
  accept: 'application/json, text/event-stream',
})
console.log(`serves ${count > ofClients}`)
await app.close()
