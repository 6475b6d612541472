import { z } from 'zod'
import { definePlugin, type AnyPlugin } from '#core'
import { type Configuration, readConfiguration } from './config/config.ts'
import { migrations } from './lists.ts'
import { mcpServer } from './server-plugin.ts'
import { Servers } from './servers.ts'

const nameInput = z.object({ name: z.string().max(100) })

/** The plugin that holds all MCP servers of an app. Each server is a plugin of its own beside it. */
function mcpPlugin(configuration: Configuration, times: Times) {
  return definePlugin({
    name: 'mcp',
    version: '1.0.0',
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
    migrations,
    setup({ db, log, now, environment, onClose, health }) {
      for (const fault of configuration.faults) log.warn(`an MCP server is left out. ${fault}`)
      const pins = environment === 'production'
      const servers = new Servers({ configuration, db, log, now, pins, ...times })
      onClose(() => servers.close())
      health(() => {
        const [first] = configuration.faults
        if (first !== undefined) throw new Error(configuration.faults.join(' '))
      })
      return servers
    },
    routes: {
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

/** For tests: shorter times. */
export interface Times {
  readonly connectMs?: number
  readonly idleMs?: number
}

/** The plugin that holds the servers, as the plugins of single servers see it. */
export type McpPlugin = ReturnType<typeof mcpPlugin>

/**
 * The plugins of the MCP servers that the environment configures, for `createApp({ plugins: [mcpServers] })`. Where nothing is
 * configured there is none, and nothing is imported.
 */
export function mcpServers(
  env: Readonly<Record<string, string | undefined>>,
  times: Times = {},
): readonly AnyPlugin[] {
  const configuration = readConfiguration(env)
  if (!configuration.isThere) return []
  const mcp = mcpPlugin(configuration, times)
  return [mcp, ...configuration.servers.map((config) => mcpServer(config, mcp))]
}

export default mcpServers
