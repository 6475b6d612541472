import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { definePlugin, parts, RuntimeError } from '#core'
import type { TestApp, TestUser } from '#core/testing'

/** What the tools of the plugin below have done. */
export const done: string[] = []

/** A plugin with a tool of each kind. */
export const vault = definePlugin({
  name: 'vault',
  summary: 'Keeps things.',
  visibility: 'on-demand',
  state: { opened: z.number().default(0).meta({ scope: 'room' }) },
  tools: {
    look: {
      description: 'What is in the vault.',
      effect: 'read',
      input: z.object({ shelf: z.string().max(20).default('top') }),
      output: z.object({ shelf: z.string(), things: z.array(z.string()) }),
      run: ({ shelf }) => ({ shelf, things: ['gold'] }),
    },
    count: {
      description: 'How often it was opened.',
      effect: 'write',
      repeatable: true,
      input: z.object({}),
      run: (_, { state }) => `opened ${++state.opened} times`,
    },
    wipe: {
      description: 'Empties the vault.',
      approve: true,
      input: z.object({ what: z.string(), also: z.string().optional() }),
      run: ({ what }, { user }) => {
        done.push(`${user.did} ${what}`)
        return `wiped ${what}`
      },
    },
    fails: {
      description: 'Always fails.',
      effect: 'read',
      input: z.object({}),
      run: () => {
        throw new RuntimeError('CONFLICT', 'The vault is shut.', { hint: 'Come back tomorrow.' })
      },
    },
    breaks: {
      description: 'Has a fault.',
      effect: 'read',
      input: z.object({}),
      run: () => {
        throw new Error('secret of the inside')
      },
    },
    large: {
      description: 'Says very much.',
      effect: 'read',
      input: z.object({}),
      run: () => 'x'.repeat(2_000_000),
    },
    slow: {
      description: 'Takes its time.',
      effect: 'read',
      input: z.object({ ms: z.number() }),
      async run({ ms }, { emit, signal }) {
        emit.progress(1, 2, 'half of it')
        try {
          await sleep(ms, undefined, { signal })
        } catch (error) {
          done.push('stopped')
          throw error
        }
        return 'slept'
      },
    },
    picture: {
      description: 'A picture.',
      effect: 'read',
      input: z.object({}),
      run: () =>
        parts([
          { type: 'text', text: 'here' },
          { type: 'image', mediaType: 'image/png', data: onePixel },
        ]),
    },
  },
})

const onePixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** A plugin that no agent and no client may use. */
export const quiet = definePlugin({
  name: 'quiet',
  summary: 'Says nothing.',
  visibility: 'silent',
  tools: { hidden: { description: 'Hidden.', input: z.object({}), run: () => 'no' } },
})

/** Makes a key of a user. */
export async function keyOf(user: TestUser, ...can: string[]): Promise<string> {
  const { body } = await user.post('/keys', { name: 'a client', can: ['oracle/call', ...can] })
  return String(body.key)
}

/** A message as a client of 2026-07-28 sends it. */
export function message(method: string, params: object = {}, capabilities: object = {}) {
  return {
    jsonrpc: '2.0',
    id: randomUUID(),
    method,
    params: {
      ...params,
      _meta: {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientInfo': { name: 'by hand', version: '1' },
        'io.modelcontextprotocol/clientCapabilities': capabilities,
      },
    },
  }
}

/** Sends a message by hand. */
export async function send(
  app: Pick<TestApp, 'url'>,
  key: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
) {
  const { method, params }: Readonly<Record<string, any>> = Object(body)
  const response = await fetch(`${app.url}/mcp`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'mcp-protocol-version': '2026-07-28',
      ...(typeof method === 'string' && { 'mcp-method': method }),
      ...(typeof params?.name === 'string' && { 'mcp-name': params.name }),
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, body: read(text) }
}

function read(text: string): any {
  const line = text
    .split('\n')
    .filter((each) => each.startsWith('data: {'))
    .at(-1)
  try {
    return JSON.parse(line ? line.slice(6) : text)
  } catch {
    return undefined
  }
}
