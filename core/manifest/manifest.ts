import { z } from 'zod'
import { RuntimeError } from '../errors.ts'
import type { AnyDefinition, AnyPlugin } from '../plugin.ts'
import { knownInstead } from './did-you-mean.ts'
import { checkJobs } from './jobs.ts'
import { isForeign } from './load-order.ts'
import { checkModels } from './models.ts'
import { checkAttachments, checkSections, checkState, checkUserData, readable } from './sections.ts'
import { checkHeaders, checkViews } from './public/public.ts'
import { checkSubAgents } from './tools/sub-agents.ts'
import { checkTools, isWhole, shown as shownValue } from './tools/tools.ts'

export { checkMadeSection, readable } from './sections.ts'
export { checkBorrowedMade, checkSubAgents } from './tools/sub-agents.ts'
export { checkTools } from './tools/tools.ts'
export { checkModels } from './models.ts'
export { checkFacts } from './public/public.ts'

const sentences = z.array(z.string().min(1)).optional()

/** The keys in which a plugin describes itself. The other keys of a definition are sections, which this schema does not check. */
const manifestSchema = z.object({
  name: z
    .string()
    .max(40)
    .regex(/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/),
  version: z.string().min(1).optional(),
  summary: z.string().trim().min(1).max(300),
  whenToUse: sentences,
  whenNotToUse: sentences,
  examples: sentences,
  tags: sentences,
  can: z
    .string()
    .max(100)
    .regex(/^[a-z][a-z0-9-]*\/[a-z0-9-]+$/)
    .optional(),
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

const sentencesForm = 'It is a list of sentences: ["The user asks for …"].'
/** What each key is that is not one of a few words. */
const forms: Partial<Record<PropertyKey, string>> = {
  // The example stands without quotes: whoever makes a plugin of that name must not find it named in the kernel.
  name: 'It is lower-case words joined by hyphens, such as field-notes: at most 40 characters.',
  version: 'It is a text such as "0.1.0".',
  summary: 'It is one sentence that the agent chooses by, of at most 300 characters.',
  whenToUse: sentencesForm,
  whenNotToUse: sentencesForm,
  examples: sentencesForm,
  tags: 'It is a list of words.',
  can: 'It is an ability such as "archive/open".',
}

const sections = [
  'env',
  'requires',
  'uses',
  'state',
  'migrations',
  'setup',
  'jobs',
  'models',
  'runs',
  'attachments',
  'prompt',
  'tools',
  'toolsFor',
  'toolsForMs',
  'subAgents',
  'middleware',
  'routes',
  'web',
  'errors',
  'facts',
  'headers',
  'views',
  'notices',
  'roomIdOf',
  'members',
  'sessionDeleted',
  'onUsage',
  'userData',
]
const knownKeys = [...Object.keys(manifestSchema.shape), ...sections]
const middlewareKinds = ['http', 'turn', 'model', 'tool']

/** Every fault of a plugin's definition that shows without running the code of the plugin. */
export function checkManifest(plugin: AnyPlugin): RuntimeError[] {
  const definition = plugin?.definition
  if (definition === undefined || definition === null || typeof definition !== 'object')
    return [
      new RuntimeError('MANIFEST_INVALID', 'An entry of "plugins" is not a plugin.', {
        hint: 'Pass what definePlugin returned; check that the file has a default export.',
      }),
    ]
  const name = typeof definition.name === 'string' ? definition.name : 'without a name'
  const sound = readable(plugin).definition
  const fault = (message: string, hint?: string) =>
    new RuntimeError('MANIFEST_INVALID', `Plugin ${name}: ${message}`, { hint })
  const faults: RuntimeError[] = checkSections(definition)

  for (const complaint of keyComplaints(definition)) faults.push(fault(...complaint))

  for (const key of ['requires', 'uses'] as const)
    for (const entry of foreignEntries(definition[key])) {
      const written = shown(entry)
      faults.push(
        fault(
          `"${key}" has ${written}, which is not a plugin.`,
          typeof entry === 'string'
            ? `${written} is a string: import the plugin, and write ${key}: [other] with what definePlugin returned.`
            : `List what definePlugin returned: import the other plugin and write ${key}: [other].`,
        ),
      )
    }

  for (const key of Object.keys(sound.middleware ?? {}))
    if (!middlewareKinds.includes(key))
      faults.push(
        fault(`"${key}" is not a kind of middleware.`, knownInstead(key, middlewareKinds)),
      )

  faults.push(...checkState(name, sound.state ?? {}))
  faults.push(...checkJobs(definition), ...checkMade(name, definition))
  faults.push(...checkAttachments(name, definition.attachments))
  faults.push(...checkUserData(name, definition.userData))
  const { tools = {}, toolsFor, toolsForMs } = sound
  if (typeof tools === 'object')
    faults.push(...checkTools(sound, tools), ...checkSubAgents(sound, tools))
  if (toolsFor !== undefined && typeof toolsFor !== 'function')
    faults.push(
      fault('"toolsFor" is no function.', 'It is a function of the turn that returns tools.'),
    )
  if (toolsForMs !== undefined && !isWhole(toolsForMs, 1, longestToolsForMs))
    faults.push(
      fault(
        `"toolsForMs" is ${shownValue(toolsForMs)}.`,
        'It is a whole number of milliseconds from 1 to 20,000.',
      ),
    )
  return faults
}

/** What is wrong with the keys in which a plugin describes itself, and which keys there are not, with what to write instead. */
function* keyComplaints(definition: object): Generator<readonly [message: string, hint: string]> {
  for (const key of Object.keys(definition))
    if (!knownKeys.includes(key))
      yield [`"${key}" is not a key of a plugin.`, knownInstead(key, knownKeys)]
  for (const issue of manifestSchema.safeParse(definition).error?.issues ?? []) {
    const value = issue.path.reduce(fieldOf, definition)
    const words = issue.code === 'invalid_value' ? issue.values.map(String) : []
    yield [
      `"${issue.path.join('.')}" is ${value === undefined ? 'missing' : shownValue(value)}.`,
      forms[issue.path[0] ?? ''] ?? knownInstead(shownValue(value), words),
    ]
  }
}

const fieldOf = (at: unknown, key: PropertyKey): unknown =>
  (at as Record<PropertyKey, unknown> | undefined)?.[key]

/** Faults of the sections that a function may make, and of what the plugin tells pages. */
const checkMade = (name: string, { runs, models, headers, views }: AnyDefinition) => [
  ...checkRuns(name, runs),
  ...checkModels(name, models),
  ...checkHeaders(name, headers),
  ...checkViews(name, views),
]

const longestToolsForMs = 20_000

/** The entries of `requires` or `uses` that are no plugins. */
function foreignEntries(listed: unknown): unknown[] {
  if (listed === undefined) return []
  return Array.isArray(listed) ? listed.filter(isForeign) : [listed]
}

const shown = (value: unknown): string =>
  typeof value === 'function'
    ? 'a function'
    : (JSON.stringify(value) ?? String(value)).slice(0, 100)

/** A fault for each name that two or more plugins have. */
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

const runKinds = ['admit', 'begin', 'wants', 'end']

/** Faults of a section `runs`, as it stands in a definition or as its function made it. */
export function checkRuns(plugin: string, runs: unknown): RuntimeError[] {
  if (runs === undefined || typeof runs === 'function') return []
  const fault = (message: string, hint: string) =>
    new RuntimeError('MANIFEST_INVALID', `Plugin ${plugin}: ${message}`, { hint })
  if (typeof runs !== 'object' || runs === null || runs instanceof Promise)
    return [
      fault('"runs" is not an object.', 'It has functions named admit, begin, wants and end.'),
    ]
  return Object.entries(runs).flatMap(([key, value]) => {
    if (!runKinds.includes(key))
      return [
        fault(`"runs" has "${key}", which is none of its functions.`, knownInstead(key, runKinds)),
      ]
    return value === undefined || typeof value === 'function'
      ? []
      : [
          fault(
            `"runs.${key}" is not a function.`,
            'Write it as a method: it gets the run and ctx.',
          ),
        ]
  })
}
