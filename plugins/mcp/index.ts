import { z } from 'zod'
import { definePlugin, type AnyPlugin } from '#core'
import { type Configuration, noServers, readConfiguration } from './config/config.ts'
import { migrations } from './lists.ts'
import { mcpServer } from './server-plugin.ts'
import { Servers } from './servers.ts'
import { claimsMigration } from './serving/claims.ts'
import { Door } from './serving/door.ts'
import { namedOrigins } from './serving/own-host.ts'

const version = '1.0.0'
const nameInput = z.object({ name: z.string().max(100) })

/**
 * The plugin that serves the tools of the app at `/mcp`, and that holds all MCP servers of the app. Each of these is a plugin
 * of its own beside it.
 */
function mcpPlugin(configuration: Configuration, origins: ReadonlySet<string>, times: Times) {
  return definePlugin({
    name: 'mcp',
    version,
    summary: 'Tools of the MCP servers that the operator has configured.',
    visibility: 'silent',
    stability: 'experimental',
    category: 'integration',
    env: {
      MCP_SERVERS: z.string().optional().meta({
        secret: true,
        description: 'MCP servers: JSON as { "mcpServers": { … } }, or the path of such a file',
      }),
    },
    migrations: { ...migrations, '002-consents': claimsMigration },
    async setup({ db, log, now, environment, oracle, tools, turns, onClose, health }) {
      for (const fault of configuration.faults) log.warn(`an MCP server is left out. ${fault}`)
      const pins = environment === 'production'
      const servers = new Servers({ configuration, db, log, now, pins, ...times })
      onClose(() => servers.close())
      await servers.learn()
      health(() => {
        const [first] = configuration.faults
        if (first !== undefined) throw new Error(configuration.faults.join(' '))
      })
      const door = new Door({ tools, turns, oracle, db, log, now, version, origins })
      onClose(() => door.close())
      return Object.assign(servers, { door, connect })
    },
    routes: {
      'POST /mcp': {
        input: z.unknown(),
        // The protocol has no repeats by a header.
        idempotent: true,
        summary:
          'The Model Context Protocol: the tools of the caller, and the agent as the tool "ask".',
        answers: {
          200: ['application/json', 'text/event-stream'],
          202: [],
          400: ['application/json'],
          406: ['application/json'],
        },
        run: (body, ctx) => ctx.self.door.answer(body, ctx),
      },
      'GET /mcp-servers': {
        auth: 'operator',
        summary:
          'The MCP servers, what is known of them, and how calls of their tools are treated.',
        run: async (_, { self }) => ({
          servers: await self.states(),
          faults: self.configuration.faults,
        }),
      },
      'GET /mcp-servers/:name/changes': {
        auth: 'operator',
        summary: 'Which tools of an MCP server differ from those that the operator has accepted.',
        input: nameInput,
        run: async ({ name }, { self }) => ({ changes: await self.changes(name) }),
      },
      'POST /mcp-servers/:name/accept': {
        auth: 'operator',
        summary: 'Accepts the tools of an MCP server as it lists them now.',
        input: nameInput,
        run: async ({ name }, { self }) => ({ accepted: await self.accept(name) }),
      },
    },
  })
}

/** What to paste into a client of the protocol. */
const connect = (url: string) => ({
  name: 'mcp',
  title: 'Clients of MCP: Claude, VS Code, Cursor, Inspector',
  lines: `url    ${url}/mcp\nheader Authorization: Bearer ok_…\n\n${JSON.stringify(
    {
      mcpServers: {
        oracle: { url: `${url}/mcp`, headers: { Authorization: 'Bearer ok_…' } },
      },
    },
    null,
    2,
  )}`,
})

/** For tests: other times. */
export interface Times {
  readonly connectMs?: number
  readonly idleMs?: number
  readonly probeMs?: number
}

/** The plugin that holds the servers, as the plugins of single servers see it. */
export type McpPlugin = ReturnType<typeof mcpPlugin>

/**
 * The plugins of MCP, for `createApp({ plugins: [mcpServers] })`: the one that serves our tools at `/mcp`, and one for each
 * server that the environment configures. Nothing of the packages is imported before somebody asks.
 */
export function mcpServers(
  env: Readonly<Record<string, string | undefined>>,
  taken: ReadonlySet<string> = new Set(),
  times: Times = {},
): readonly AnyPlugin[] {
  const configuration = readConfiguration(env, taken)
  const mcp = mcpPlugin(configuration, namedOrigins(env.CORS_ORIGIN), times)
  return [mcp, ...configuration.servers.map((config) => mcpServer(config, mcp))]
}

/** The plugin that serves `/mcp`, for those who list it under `uses`. An app loads the one that its environment makes. */
export const mcp: McpPlugin = mcpPlugin(noServers, new Set(), {})

export { mcpClient, type McpClient, type Question, type Questions } from './serving/questions.ts'

export default mcpServers
