import { z } from 'zod'
import { RuntimeError } from '../errors.ts'
import type { AnyDefinition, AnyPlugin, Schema, Shape } from '../plugin.ts'
import { meant } from './did-you-mean.ts'
import { metaOf } from './env.ts'
import { isSchema, shown as shownJson } from './tools/tools.ts'

/** What stands under each name of a section. */
interface Kind {
  readonly code: ConstructorParameters<typeof RuntimeError>[0]
  /** What one entry is called, and what each has to be. */
  readonly entry: string
  readonly fits: (entry: unknown) => boolean
  readonly hint: string
  /** Whether a function of what boot found may stand in place of the section. */
  readonly isMade?: true
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isFunction = (value: unknown) => typeof value === 'function'
const isFunctionOrUnset = (value: unknown) => value === undefined || isFunction(value)
const anything = () => true
/** An addition, or one that breaks. */
const isMigration = (value: unknown) =>
  isFunction(value) || (isObject(value) && isFunction(value.up) && value.breaks === true)

/** Sections that are objects. Those whose entries fit anything have a check of their own, which says more. */
const objects: readonly (readonly [section: keyof AnyDefinition, kind: Kind])[] = [
  [
    'env',
    {
      code: 'MANIFEST_INVALID',
      entry: 'variable',
      fits: isSchema,
      hint: 'Each variable has a schema: env: { NAME: z.string() }.',
    },
  ],
  [
    'state',
    {
      code: 'STATE_INVALID',
      entry: 'state key',
      fits: isSchema,
      hint: 'Each key has a schema that says where it starts: state: { count: z.number().default(0) }.',
    },
  ],
  [
    'migrations',
    {
      code: 'MANIFEST_INVALID',
      entry: 'migration',
      fits: isMigration,
      hint: 'Each migration is a function of the database, by its name, or { up, breaks: true }.',
    },
  ],
  [
    'middleware',
    {
      code: 'MANIFEST_INVALID',
      entry: 'middleware',
      fits: isFunctionOrUnset,
      hint: 'Each kind of middleware is a function (ctx, next).',
    },
  ],
  [
    'subAgents',
    {
      code: 'SUBAGENT_INVALID',
      entry: 'sub-agent',
      fits: anything,
      hint: 'It is an object of sub-agents by name.',
    },
  ],
  [
    'tools',
    {
      code: 'TOOL_INVALID',
      entry: 'tool',
      fits: anything,
      hint: 'It is an object of tools by name, or a function that returns one.',
      isMade: true,
    },
  ],
  [
    'routes',
    {
      code: 'ROUTE_INVALID',
      entry: 'route',
      fits: isObject,
      hint: 'Each route is an object with a "run": routes: { "GET /notes": { run: () => … } }.',
      isMade: true,
    },
  ],
  [
    'web',
    {
      code: 'ROUTE_INVALID',
      entry: 'mount',
      fits: anything,
      hint: 'It is an object of web modules by mount, or a function that returns one.',
      isMade: true,
    },
  ],
  [
    'errors',
    {
      code: 'ROUTE_INVALID',
      entry: 'address',
      fits: isFunction,
      hint: 'Each address has a function that makes the body: errors: { "/notes/v1": (error) => ({ … }) }.',
    },
  ],
]

/** Sections that are one function. */
const functions: readonly (readonly [section: keyof AnyDefinition, hint: string])[] = [
  ['setup', 'It is a function that runs at boot: async setup(boot) { … }.'],
  ['facts', 'It is a function that returns facts by key: facts: (boot) => ({ … }).'],
  ['prompt', 'It is a function that returns text: prompt: () => "…".'],
  ['onUsage', 'It is a function that hears of a call of a model: onUsage(call, ctx) { … }.'],
  ['notices', 'It is a function that carries one notice: notices(notice, ctx) { … }.'],
]

/** The faults of sections that are not of their kind. Types cannot stop a plugin in plain JavaScript. */
export function checkSections(definition: AnyDefinition): RuntimeError[] {
  const faults: RuntimeError[] = []
  const { name } = definition
  for (const [section, kind] of objects) {
    const given: unknown = definition[section]
    if (given === undefined || (kind.isMade && isFunction(given))) continue
    faults.push(...sectionFaults(String(name), section, kind, given))
  }
  for (const [section, hint] of functions) {
    const given: unknown = definition[section]
    if (isFunctionOrUnset(given)) continue
    const message = `Plugin ${name}: "${section}" is ${shown(given)}.`
    faults.push(new RuntimeError('MANIFEST_INVALID', message, { hint }))
  }
  return faults
}

/** Faults of a section that a function made. A promise would pass for a section without entries. */
export function checkMadeSection(
  plugin: string,
  section: 'tools' | 'routes' | 'web',
  made: unknown,
): RuntimeError[] {
  const kind = objects.find(([name]) => name === section)?.[1]
  if (made instanceof Promise) {
    made.catch(() => undefined) // the fault of the boot says enough
    return [
      new RuntimeError(
        kind?.code ?? 'MANIFEST_INVALID',
        `Plugin ${plugin}: the function "${section}" returned a promise.`,
        { hint: 'Wait in "setup", and read what it returns as `self`.' },
      ),
    ]
  }
  return kind ? sectionFaults(plugin, section, kind, made) : []
}

/**
 * The plugin without the entries and sections that `checkSections` finds fault with, so that the boot can look for the
 * other faults; the plugin itself where it has none of these.
 */
export function readable(plugin: AnyPlugin): AnyPlugin {
  const { definition } = plugin
  if (checkSections(definition).length === 0) return plugin
  const rest: Record<string, unknown> = { ...definition }
  for (const [section, kind] of objects) {
    const given = rest[section]
    if (kind.isMade && isFunction(given)) continue
    rest[section] = isObject(given)
      ? Object.fromEntries(Object.entries(given).filter(([, entry]) => kind.fits(entry)))
      : undefined
  }
  for (const [section] of functions) if (!isFunction(rest[section])) rest[section] = undefined
  return { ...plugin, definition: { ...definition, ...rest } }
}

function sectionFaults(
  plugin: string,
  section: string,
  kind: Kind,
  given: unknown,
): RuntimeError[] {
  const { code, entry, fits, hint } = kind
  if (!isObject(given) || isSchema(given))
    return [new RuntimeError(code, `Plugin ${plugin}: "${section}" is ${shown(given)}.`, { hint })]
  return Object.entries(given)
    .filter(([, value]) => !fits(value))
    .map(
      ([name, value]) =>
        new RuntimeError(code, `Plugin ${plugin}: the ${entry} "${name}" is ${shown(value)}.`, {
          hint,
        }),
    )
}

/** What a value is, in a sentence that says what it should not be. A text may be a secret that stands where a schema should. */
function shown(value: unknown): string {
  if (typeof value === 'string') return 'a text'
  if (typeof value === 'function') return 'a function'
  if (isSchema(value)) return 'a schema'
  if (Array.isArray(value)) return 'a list'
  return shownJson(value)
}

/** Faults of a plugin's state keys, each of which is a schema. */
export function checkState(plugin: string, state: Shape): RuntimeError[] {
  const fault = (key: string, message: string, hint: string) =>
    new RuntimeError('STATE_INVALID', `Plugin ${plugin}: the state key "${key}" ${message}`, {
      hint,
    })
  return Object.entries(state).flatMap(([key, schema]) => {
    const faults = beginningFaults(schema).map(([message, hint]) => fault(key, message, hint))
    const { scope, share } = metaOf(schema)
    if (share !== undefined && (share !== true || scope !== 'room'))
      faults.push(
        fault(
          key,
          'says share, and is no key of a room that says share: true.',
          'Write .meta({ scope: "room", share: true }) for what clients may see.',
        ),
      )
    if (scope !== undefined && scope !== 'room' && scope !== 'thread')
      faults.push(
        fault(
          key,
          `has the scope ${shownJson(scope)}.`,
          'Write .meta({ scope: "room" }) for what outlives the session, and no scope for what does not.',
        ),
      )
    return faults
  })
}

/** What is wrong with the value that a key starts with. */
function beginningFaults(schema: Schema): (readonly [message: string, hint: string])[] {
  try {
    if (z.safeParse(schema, undefined).success) return []
  } catch (thrown) {
    if (!(thrown instanceof z.core.$ZodAsyncError))
      return [
        [
          `has a schema that throws: ${thrown instanceof Error ? thrown.message : String(thrown)}`,
          'Let its default, transform or refinement return a value.',
        ],
      ]
    return [
      [
        'has a schema that waits.',
        'State is parsed at once: no async refinement, no async transform.',
      ],
    ]
  }
  return [['has no value to start with.', 'Give its schema a .default(…) or make it .optional().']]
}

/** The schemes of attachments that the runtime reads itself. */
const ownSchemes = ['https:', 'http:', 'data:']

/** Faults of a section `attachments`. */
export function checkAttachments(plugin: string, attachments: unknown): RuntimeError[] {
  if (attachments === undefined) return []
  const fault = (message: string, hint: string) =>
    new RuntimeError('MANIFEST_INVALID', `Plugin ${plugin}: ${message}`, { hint })
  if (typeof attachments !== 'object' || attachments === null)
    return [fault('"attachments" is not an object.', "It has functions by scheme: 'mxc:'.")]
  return Object.entries(attachments).flatMap(([scheme, read]) => {
    if (ownSchemes.includes(scheme))
      return [fault(`"attachments" has "${scheme}".`, 'The runtime reads such addresses itself.')]
    if (!/^[a-z][a-z0-9+.-]*:$/.test(scheme))
      return [
        fault(
          `"attachments" has "${scheme}", which is no scheme.`,
          "A scheme is in lower case and ends with a colon: 'mxc:'.",
        ),
      ]
    return typeof read === 'function'
      ? []
      : [fault(`"attachments.${scheme}" is not a function.`, 'It gets the address and ctx.')]
  })
}

/** Faults of a section `userData`: both functions are there, because who can be told of must be erasable. */
export function checkUserData(plugin: string, userData: unknown): RuntimeError[] {
  if (userData === undefined) return []
  const fault = (message: string, hint: string) =>
    new RuntimeError('MANIFEST_INVALID', `Plugin ${plugin}: ${message}`, { hint })
  if (!isObject(userData))
    return [fault(`"userData" is ${shown(userData)}.`, 'It has two functions: export and erase.')]
  const kinds = ['export', 'erase']
  return [
    ...Object.keys(userData)
      .filter((key) => !kinds.includes(key))
      .map((key) =>
        fault(
          `"userData" has "${key}", which is none of its functions.`,
          meant(key, kinds) || 'They are export and erase.',
        ),
      ),
    ...kinds
      .filter((kind) => !isFunction(userData[kind]))
      .map((kind) =>
        fault(
          `"userData.${kind}" is no function.`,
          'Write it as a method: it gets the DID and ctx.',
        ),
      ),
  ]
}
