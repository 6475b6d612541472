import { z } from 'zod'
import { readConfiguration } from '../../plugins/mcp/config/config.ts'
import { Connection } from '../../plugins/mcp/connecting/connection.ts'

// Our client of MCP as the conformance suite drives it: the last word is the address of a server. It lists the tools, and calls what
// the scenario names, or every tool once with an argument of each kind that it has to have.
const log = { debug() {}, info() {}, warn() {}, error: console.error }
const url = process.argv.at(-1) ?? ''
const context = z
  .object({
    client_id: z.string().optional(),
    client_secret: z.string().optional(),
    toolCalls: z
      .array(z.object({ name: z.string(), arguments: z.record(z.string(), z.unknown()) }))
      .optional(),
  })
  .parse(JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}'))
const { client_id: clientId, client_secret: clientSecret } = context
const oracle = clientSecret === undefined ? {} : { oauth: { clientId, clientSecret } }
const MCP_SERVERS = JSON.stringify({ mcpServers: { one: { url, oracle } } })
const servers = readConfiguration({ MCP_SERVERS })
const [config] = servers.servers
if (!config) throw new Error(servers.faults.join(' '))
const connection = new Connection(config, { log, now: Date.now })

const samples: Readonly<Record<string, unknown>> = {
  number: 2,
  integer: 2,
  boolean: true,
  object: {},
  array: [],
}
const sampleOf = (schema: unknown): unknown => samples[String(Object(schema).type)] ?? 'a'
/** Arguments for a tool. One called `schema` is sent the schema of the first tool, as it came. */
const argsOf = (parameters: object, first: unknown): Record<string, unknown> => {
  const fields: object = Object(Reflect.get(parameters, 'properties'))
  return Object.fromEntries(
    Object.entries(fields).map(([name, of]) => [name, name === 'schema' ? first : sampleOf(of)]),
  )
}

try {
  const { tools, revision } = await connection.list()
  console.log(revision, tools.map(({ name }) => name).join(' '))
  const calls =
    context.toolCalls ??
    tools.map((tool) => ({
      name: tool.name,
      arguments: argsOf(tool.parameters, tools[0]?.parameters),
    }))
  for (const { name, arguments: args } of calls) {
    const tool = tools.find((one) => one.name === name)
    if (!tool) continue
    const signal = AbortSignal.timeout(20_000)
    const told = connection.call(tool, args, { signal, progress() {} }, true)
    console.log(name, await told.then(JSON.stringify, String))
  }
} finally {
  await connection.close()
}
process.exit() // what the suite keeps open is its own
