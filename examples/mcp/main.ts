import { join } from 'node:path'
import { testApp } from '#core/testing'
import mcpServers from '../../plugins/mcp/index.ts'
import demo from '../../plugins/models-demo/index.ts'

// npm run example:mcp: the agent uses a server of MCP that runs as a child process. Nothing leaves this machine.
const notes = {
  command: process.execPath,
  args: ['--disable-warning=ExperimentalWarning', join(import.meta.dirname, 'notes-server.ts')],
  oracle: {
    summary: 'The notes of the user: lists, adds and deletes notes.',
    whenToUse: ['list my notes', 'add a note', 'delete all notes'],
    access: 'everyone',
  },
}
await using app = await testApp({
  plugins: [demo, mcpServers],
  env: {
    ORACLE_MNEMONIC: 'words of the example with a server of MCP',
    MCP_SERVERS: JSON.stringify({ mcpServers: { notes } }),
  },
})
const user = await app.user()
const { sessionId } = (await user.post('/sessions')).body

for (const message of [
  'List my notes',
  'Add a note: call Ada',
  'List my notes',
  'Delete all notes',
]) {
  console.log(`\nyou:    ${message}`)
  const said = await user.say(message, { sessionId, approvals: true })
  for (const tool of said.tools) console.log(`        (${tool})`)
  if (said.status === 'waiting') {
    console.log(
      'oracle: May I? This one asks first, because the server does not say that it is harmless.',
    )
    console.log('you:    No')
    console.log(`oracle: ${(await said.reject()).text}`)
  } else console.log(`oracle: ${said.text}`)
}
