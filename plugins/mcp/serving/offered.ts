import type { Tool } from '@modelcontextprotocol/server'
import type { OutsideTool, OutsideTools, User } from '#core'

/** The tool that is the agent itself. */
export const askName = 'ask'

/** The abilities of personal keys that this door knows. */
export const mayCall = 'tools/call'
export const mayApprove = 'tools/approve'

const ask: Tool = {
  name: askName,
  title: 'Ask the agent',
  description:
    'Asks the agent in plain words. It chooses its own tools, and answers in words. Give "session" to go on with a conversation.',
  inputSchema: {
    type: 'object',
    properties: {
      message: { type: 'string', minLength: 1, description: 'What you want to know or have done' },
      session: {
        type: 'string',
        maxLength: 200,
        description: 'The session of an earlier answer, to go on there',
      },
    },
    required: ['message'],
    additionalProperties: false,
  },
  outputSchema: {
    type: 'object',
    properties: {
      text: { type: 'string' },
      session: { type: 'string' },
      status: { type: 'string' },
    },
    required: ['text', 'session', 'status'],
  },
  annotations: { readOnlyHint: false, openWorldHint: true },
}

/** Made once for each tool: a list of 500 is asked for again and again. */
const made = new WeakMap<OutsideTool, Tool>()

/** Whether a caller may call tools without the agent. */
export const callsTools = (user: User): boolean => user.can(mayCall)

/** The tools of a caller, as the protocol lists them; `plugins` narrows them. */
export async function offeredTo(
  user: User,
  tools: OutsideTools,
  plugins: ReadonlySet<string> | undefined,
): Promise<Tool[]> {
  if (!callsTools(user)) return [ask]
  const listed = await tools.list({ user })
  const wanted = listed.filter(
    ({ name, plugin }) => name !== askName && (plugins?.has(plugin) ?? true),
  )
  return [ask, ...wanted.map(toolOf)]
}

/** The dialect of our schemas, which clients before 2026-07-28 do not take for granted. */
const dialect = 'https://json-schema.org/draft/2020-12/schema'

function toolOf(tool: OutsideTool): Tool {
  const known = made.get(tool)
  if (known) return known
  const { name, description, parameters, output, effect, approve, isRepeatable, isForeign } = tool
  const isRead = effect === 'read'
  const one: Tool = {
    name,
    description,
    inputSchema: { $schema: dialect, ...parameters, type: 'object' },
    ...(output && { outputSchema: { ...output, type: 'object' } }),
    annotations: {
      readOnlyHint: isRead,
      // For a read the protocol gives neither of these a meaning.
      ...(!isRead && { destructiveHint: approve !== false, idempotentHint: isRepeatable }),
      openWorldHint: isForeign,
    },
  }
  made.set(tool, one)
  return one
}

/** Which plugins `?plugins=a,b` names; undefined where it says nothing, and none for `none`. */
export function wantedPlugins(query: URLSearchParams): ReadonlySet<string> | undefined {
  const said = query.get('plugins')
  if (said === null) return undefined
  return new Set(
    said === 'none'
      ? []
      : said
          .split(',')
          .map((name) => name.trim())
          .filter(Boolean),
  )
}
