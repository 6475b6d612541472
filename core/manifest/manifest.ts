import { z } from 'zod'
import { RuntimeError } from '../errors.ts'
import type { AnyDefinition, AnyPlugin, AnyTool } from '../plugin.ts'
import { meant } from './did-you-mean.ts'
import { faultOf } from './faults.ts'
import { isForeign } from './load-order.ts'

const sentences = z.array(z.string().min(1)).optional()

/** What a plugin may say about itself. The definition's other keys are sections, checked beside it. */
const manifestSchema = z.object({
  name: z
    .string()
    .max(40)
    .regex(
      /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/,
      'lower-case words joined by hyphens, such as "field-notes"',
    ),
  version: z.string().min(1).optional(),
  summary: z.string().trim().min(1, 'one sentence that the agent chooses by').max(300),
  whenToUse: sentences,
  whenNotToUse: sentences,
  examples: sentences,
  tags: sentences,
  visibility: z.enum(['always', 'on-demand', 'silent']).optional(),
  stability: z.enum(['stable', 'beta', 'experimental']).optional(),
  category: z
    .enum([
      'core',
      'data',
      'communication',
      'automation',
      'memory',
      'integration',
      'ui',
      'auth',
      'observability',
    ])
    .optional(),
  defaultState: z.enum(['on', 'off', 'development']).optional(),
})

const sections = [
  'env',
  'requires',
  'state',
  'migrations',
  'setup',
  'prompt',
  'tools',
  'subAgents',
  'middleware',
  'routes',
  'web',
]
const knownKeys = [...Object.keys(manifestSchema.shape), ...sections]
const middlewareKinds = ['turn', 'model', 'tool']

/** Every fault of a plugin that can be seen without running any of it. */
export function checkManifest(plugin: AnyPlugin): RuntimeError[] {
  const definition = plugin?.definition
  if (definition === undefined || definition === null || typeof definition !== 'object')
    return [
      new RuntimeError('MANIFEST_INVALID', 'An entry of "plugins" is not a plugin.', {
        hint: 'Pass what definePlugin returned; check that the file has a default export.',
      }),
    ]
  const name = String(definition.name)
  const fault = (message: string, hint?: string) =>
    new RuntimeError('MANIFEST_INVALID', `Plugin ${name}: ${message}`, { hint })
  const faults: RuntimeError[] = []

  for (const key of Object.keys(definition))
    if (!knownKeys.includes(key))
      faults.push(fault(`"${key}" is not a key of a plugin.`, meant(key, knownKeys)))

  const parsed = manifestSchema.safeParse(definition)
  for (const issue of parsed.error?.issues ?? []) {
    const { path: key, message } = faultOf(issue)
    const value = issue.path.reduce<unknown>(
      (at, part) => (at as Record<PropertyKey, unknown>)?.[part],
      definition,
    )
    faults.push(fault(`"${key}" is ${JSON.stringify(value) ?? 'missing'}. ${message}.`))
  }

  for (const written of foreignRequirements(definition.requires))
    faults.push(
      fault(
        `"requires" has ${written}, which is not a plugin.`,
        'List what definePlugin returned: import the other plugin and write requires: [other].',
      ),
    )

  for (const key of Object.keys(definition.middleware ?? {}))
    if (!middlewareKinds.includes(key))
      faults.push(
        fault(
          `"${key}" is not a kind of middleware.`,
          meant(key, middlewareKinds) || 'The kinds are turn, model and tool.',
        ),
      )

  for (const [key, schema] of Object.entries(definition.state ?? {}))
    if (!z.safeParse(schema, undefined).success)
      faults.push(
        new RuntimeError(
          'STATE_INVALID',
          `Plugin ${name}: the state key "${key}" has no value to start with.`,
          {
            hint: 'Give its schema a .default(…) or make it .optional().',
          },
        ),
      )

  if (typeof definition.tools === 'object') faults.push(...checkTools(definition, definition.tools))
  return faults
}

/** What stands in `requires` and is no plugin, as it was written. */
function foreignRequirements(requires: unknown): string[] {
  if (requires === undefined) return []
  if (!Array.isArray(requires)) return [shown(requires)]
  return requires.filter(isForeign).map(shown)
}

const shown = (value: unknown): string =>
  typeof value === 'function'
    ? 'a function'
    : (JSON.stringify(value) ?? String(value)).slice(0, 100)

const toolName = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/

/** Faults of a plugin's tools and of the sub-agents that list them. */
export function checkTools(
  definition: AnyDefinition,
  tools: Readonly<Record<string, AnyTool>>,
): RuntimeError[] {
  const faults: RuntimeError[] = []
  const { name } = definition
  for (const [key, tool] of Object.entries(tools)) {
    const fault = (message: string, hint?: string) =>
      faults.push(
        new RuntimeError('TOOL_INVALID', `Plugin ${name}: the tool "${key}" ${message}`, { hint }),
      )
    if (!toolName.test(key))
      fault(
        'has a name that models cannot call.',
        'Use at most 64 letters, digits and underscores.',
      )
    if (!tool?.description?.trim())
      fault('has no description.', 'Say in a sentence what it does and when to call it.')
    if (typeof tool?.run !== 'function') fault('has no run function.')
    const asks = typeof tool?.approve
    if (!['undefined', 'boolean', 'function'].includes(asks))
      fault(
        `has an "approve" of ${JSON.stringify(tool.approve)}.`,
        'It is true, false or a function that says whether a person is asked.',
      )
    if (!['undefined', 'boolean'].includes(typeof tool?.foreign))
      fault(
        `has a "foreign" of ${JSON.stringify(tool.foreign)}.`,
        'It is true or false: whether the result holds other people’s words.',
      )
    if (!isSchema(tool?.input))
      fault('has no input schema.', 'Use z.object({}) when it takes nothing.')
    else if (jsonType(tool.input) !== 'object')
      fault(
        'takes something other than an object.',
        'Models call tools with an object: wrap it in z.object({ … }).',
      )
  }
  for (const [agent, { tools: listed }] of Object.entries(definition.subAgents ?? {}))
    for (const tool of listed)
      if (!Object.hasOwn(tools, tool))
        faults.push(
          new RuntimeError(
            'SUBAGENT_INVALID',
            `Plugin ${name}: the sub-agent "${agent}" lists the tool "${tool}", which the plugin does not have.`,
            {
              hint: meant(tool, Object.keys(tools)),
            },
          ),
        )
  return faults
}

function isSchema(value: unknown): value is z.core.$ZodType {
  return typeof value === 'object' && value !== null && '_zod' in value
}

function jsonType(schema: z.core.$ZodType): unknown {
  // Nearly every tool takes a plain object, and writing its JSON Schema costs a millisecond or two of every boot.
  if (schema._zod.def.type === 'object') return 'object'
  try {
    const json = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
    return json.type ?? (json.anyOf || json.oneOf || json.allOf ? 'object' : undefined)
  } catch {
    return undefined // A schema without a JSON form cannot be shown to a model; the caller reports it.
  }
}

/** A fault for each name that two plugins have. */
export function checkNames(plugins: readonly AnyPlugin[]): RuntimeError[] {
  const seen = new Set<string>()
  const twice = new Set<string>()
  for (const { name } of plugins) (seen.has(name) ? twice : seen).add(name)
  return [...twice].map(
    (name) =>
      new RuntimeError('PLUGIN_DUPLICATE', `Two plugins are called "${name}".`, {
        hint: 'Rename one, or drop the one that was added twice.',
      }),
  )
}
