import { McpServer } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'

// A server of MCP over standard streams, as anybody writes one: it knows nothing of the oracle.
const notes: string[] = ['Buy milk', 'Water the plants']

serveStdio(() => {
  const server = new McpServer({ name: 'notes', version: '1.0.0' }, { capabilities: { tools: {} } })
  const said = (text: string) => ({ content: [{ type: 'text' as const, text }] })
  server.registerTool(
    'list_notes',
    { description: 'Lists all notes.', annotations: { readOnlyHint: true } },
    () => said(notes.map((note, at) => `${at + 1}. ${note}`).join('\n')),
  )
  server.registerTool(
    'add_note',
    {
      description: 'Adds a note.',
      inputSchema: z.object({ text: z.string().min(1).max(200).describe('What to note') }),
      annotations: { destructiveHint: false },
    },
    ({ text }) => said(`Noted. There are ${notes.push(text)} notes.`),
  )
  server.registerTool('delete_notes', { description: 'Deletes all notes for ever.' }, () => {
    notes.length = 0
    return said('All notes are gone.')
  })
  return server
})
