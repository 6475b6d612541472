import { createServer, request } from 'node:http'
import { z } from 'zod'
import { definePlugin, parts, RuntimeError } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import mcpServers, { type McpClient, mcpClient, type Question } from '../../plugins/mcp/index.ts'

// A server with the tools that the conformance suite of MCP calls, behind a door that adds the key which the suite cannot send:
//   node --conditions=oracle-runtime-source test/support/conformance-server.ts
// prints its address. docs/mcp.md says what the suite found.
const input = z.object({})
const png =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const picture = { type: 'image', mediaType: 'image/png', data: png } as const
const sound = { type: 'audio', mediaType: 'audio/wav', data: 'UklGRiQAAABXQVZF' } as const
const file = { type: 'file', mediaType: 'text/plain', name: 'a.txt', data: 'YQ==' } as const
const read = { effect: 'read', foreign: false, input } as const
const reads = (description: string, run: () => unknown) => ({ ...read, description, run })
const asks = { description: 'Asks a person first.', approve: true, input, run: () => 'Done.' }

const form = (field: string): Question => ({
  method: 'elicitation/create',
  params: {
    message: `What is your ${field}?`,
    requestedSchema: {
      type: 'object',
      properties: { [field]: { type: 'string' } },
      required: [field],
    },
  },
})
const thought: Question = {
  method: 'sampling/createMessage',
  params: {
    messages: [{ role: 'user', content: { type: 'text', text: 'Say something.' } }],
    maxTokens: 50,
  },
}
const folders: Question = { method: 'roots/list', params: {} }
/** A tool that ends with what the client has answered, once it has all that it wants. */
const wants = (questions: (client: McpClient) => Readonly<Record<string, Question>>) =>
  reads('Asks the client.', () => {
    const client = mcpClient()
    if (!client) return 'Nobody to ask.'
    const wanted = questions(client)
    const isAnswered = (name: string) => {
      const { action, content }: Readonly<Record<string, unknown>> = Object(client.answers[name])
      if (wanted[name]?.method !== 'elicitation/create') return name in client.answers
      return action === 'accept' && typeof content === 'object' && content !== null
    }
    if (!Object.keys(wanted).every(isAnswered)) return client.ask(wanted)
    return JSON.stringify(client.answers)
  })

/** The schema that the suite wants to see again. */
const schema2020 = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
}

const fixtures = definePlugin({
  name: 'fixtures',
  summary: 'Tools of the conformance suite.',
  tools: {
    test_simple_text: reads('Says.', () => 'This is a simple text response for testing.'),
    test_image_content: reads('Shows.', () => parts([picture])),
    test_audio_content: reads('Sounds.', () => parts([sound])),
    test_embedded_resource: reads('Hands out a file.', () => parts([file])),
    test_multiple_content_types: reads('Words, a picture and a file.', () =>
      parts([{ type: 'text', text: 'Multiple content types test:' }, picture, file]),
    ),
    test_error_handling: reads('Fails.', () => {
      throw new RuntimeError('CONFLICT', 'This tool intentionally returns an error for testing')
    }),
    test_tool_with_progress: {
      ...read,
      description: 'Tells of its progress.',
      run: (_, { emit }) => {
        for (const done of [0, 50, 100]) emit.progress(done, 100)
        return 'done'
      },
    },
    json_schema_2020_12_tool: {
      ...read,
      description: 'Has a schema with all that JSON Schema 2020-12 has.',
      input: z.strictObject({ name: z.string().optional() }).meta(schema2020),
      run: () => 'done',
    },
    test_header_parameter: {
      ...read,
      description: 'Says its parameter, which clients repeat in a header.',
      input: z.object({ region: z.string().meta({ 'x-mcp-header': 'Region' }) }),
      run: ({ region }) => region,
    },
    test_logging_tool: reads('Would write a log.', () => 'done'),
    test_streaming_elicitation: asks,
    test_missing_capability: wants(() => ({ thought })),
    test_input_required_result_elicitation: wants(() => ({ user_name: form('name') })),
    test_input_required_result_sampling: wants(() => ({ capital_question: thought })),
    test_input_required_result_list_roots: wants(() => ({ client_roots: folders })),
    test_input_required_result_multiple_inputs: wants(() => ({
      ...{ user_name: form('name'), greeting: thought, client_roots: folders },
    })),
    test_input_required_result_multi_round: reads('Asks twice.', () => {
      const client = mcpClient()
      if (!client) return 'Nobody to ask.'
      if (client.kept === undefined && !client.answers.step1)
        return client.ask({ step1: form('name') })
      if (!client.answers.step2) return client.ask({ step2: form('colour') }, client.answers.step1)
      return JSON.stringify([client.kept, client.answers.step2])
    }),
    test_input_required_result_request_state: asks,
    test_input_required_result_tampered_state: asks,
    test_input_required_result_capabilities: wants((client) => ({
      ...(client.can('elicitation') && { user_name: form('name') }),
      ...(client.can('sampling') && { thought }),
    })),
  },
})

const app = await testApp({ plugins: [mcpServers, fixtures], model: scriptedModel([]) })
const user = await app.user()
const can = ['oracle/call', 'tools/call']
const { body } = await user.post('/keys', { name: 'conformance', can })
const authorization = `Bearer ${body.key}`
const target = new URL(app.url)

const door = createServer((req, res) => {
  const own =
    req.headers.host === `127.0.0.1:${portOf()}` || req.headers.host === `localhost:${portOf()}`
  const origin = req.headers.origin === `http://${req.headers.host}` && own
  const headers = {
    ...{ ...req.headers, authorization },
    ...(own && { host: target.host }),
    ...(origin && { origin: target.origin }),
  }
  const { port, hostname } = target
  const asked = request(
    { hostname, port, method: req.method, path: req.url, headers },
    (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(res)
    },
  )
  asked.on('error', () => res.destroy())
  res.on('close', () => asked.destroy())
  req.pipe(asked)
})
const portOf = () => Object(door.address()).port
door.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${portOf()}/mcp`))
