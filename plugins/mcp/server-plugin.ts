import { definePlugin, RuntimeError, type AnyPlugin, type TurnContext } from '#core'
import type { ServerConfig } from './config/config.ts'
import { unusable } from './connecting/connection.ts'
import type { McpPlugin } from './index.ts'
import type { OfferedTool, Servers } from './servers.ts'

/** A turn may wait so long for a server that is asked for the first time. */
const toolsForMs = 20_000
/** A call may take ten minutes as long as the server tells of its progress, and the connection minds that. */
const longestCallMs = 610_000

/** The plugin of one MCP server: a line in the prompt, and its tools once a turn has loaded it. */
export function mcpServer(config: ServerConfig, mcp: McpPlugin): AnyPlugin {
  const { name, key, oracle } = config
  let servers: Servers | undefined
  return definePlugin({
    name,
    // Read anew for each prompt: what a server says of itself is known once it has been asked.
    get summary() {
      if (oracle.summary !== undefined) return oracle.summary
      const about = servers?.aboutOf(name)
      return about === undefined
        ? `Tools of the MCP server "${key.slice(0, 100)}".`
        : `An MCP server that says of itself: ${JSON.stringify(about)}`
    },
    ...(oracle.whenToUse && { whenToUse: oracle.whenToUse }),
    ...(oracle.access === 'granted' && { can: `mcp/${name}` }),
    visibility: 'on-demand',
    stability: 'experimental',
    category: 'integration',
    requires: [mcp],
    setup({ plugins, health }) {
      servers = plugins.mcp
      health(() => plugins.mcp.demandWell(name))
    },
    toolsForMs,
    async toolsFor({ plugins }) {
      const servers = plugins.mcp
      try {
        const offered = await servers.offered(name)
        return Object.fromEntries(offered.map((each) => [each.name, toolOf(name, each, servers)]))
      } catch (error) {
        if (!(error instanceof RuntimeError)) throw error
        return { [`${name}_status`]: statusTool(name, error.message, servers) }
      }
    },
  })
}

function toolOf(server: string, offered: OfferedTool, servers: Servers) {
  const { tool, treatment } = offered
  return {
    description: tool.description,
    parameters: tool.parameters,
    effect: treatment.effect,
    // Never false: that would say that the call is harmless whatever the turn has read.
    ...(treatment.approve && { approve: true }),
    timeoutMs: longestCallMs,
    run: (args: Readonly<Record<string, unknown>>, { signal, emit }: TurnContext) =>
      servers.call(server, offered, args, {
        signal,
        progress: (done, total, note) => emit.progress(done, total, note?.slice(0, 200)),
      }),
  }
}

/** What stands in the place of the tools of a server that cannot be used: the model reads why, and may try again. */
function statusTool(server: string, sentence: string, servers: Servers) {
  return {
    description: `The tools of the MCP server "${server}" are not there now: ${sentence} This tool tries again.`,
    parameters: { type: 'object', properties: {} },
    effect: 'read' as const,
    timeoutMs: 30_000,
    run: async () => {
      const { tools } = await servers.list(server)
      if (tools.length === 0) throw unusable(`${server}: it has no tools.`)
      return `It answers again. Its ${tools.length} tools are there from the user's next message on.`
    },
  }
}
