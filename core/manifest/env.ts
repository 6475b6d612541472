import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { RuntimeError } from '../errors.ts'
import type { Schema, Shape } from '../plugin.ts'

/** Environment variables by name, as a process or a file has them. */
export type EnvSource = Readonly<Record<string, string | undefined>>

/** Every word that NODE_ENV takes. */
export const environments = ['development', 'test', 'production'] as const
/** A word that NODE_ENV takes. */
export type Environment = (typeof environments)[number]

/** What NODE_ENV says, or development when NODE_ENV is unset. Undefined when NODE_ENV has another word. */
export function environmentOf({ NODE_ENV }: EnvSource): Environment | undefined {
  return NODE_ENV ? environments.find((word) => word === NODE_ENV) : 'development'
}

/** Whether the app may generate secrets and load helpers for authors. With an unknown word in NODE_ENV it may not. */
export function isForAuthors(source: EnvSource): boolean {
  const environment = environmentOf(source)
  return environment === 'development' || environment === 'test'
}

/**
 * The fault when HOST lets other machines reach the server and NODE_ENV is unset; undefined otherwise. Development has open
 * doors because only this machine can reach the server, so an operator who serves others has to set NODE_ENV.
 */
export function unsaidEnvironment(
  { NODE_ENV }: EnvSource,
  host: string | undefined,
): RuntimeError | undefined {
  if (NODE_ENV || host === undefined || isLoopback(host)) return undefined
  return new RuntimeError(
    'ENV_MISSING',
    `HOST is "${host}", where others than this machine can reach the server, and NODE_ENV is unset.`,
    {
      hint: 'Set NODE_ENV=production to serve others, or NODE_ENV=development to try it in your network.',
    },
  )
}

/** Whether only this machine can reach a server that listens at this host. */
const isLoopback = (host: string): boolean =>
  /^(localhost|(::ffff:)?127\.\d{1,3}\.\d{1,3}\.\d{1,3}|::1)$/i.test(host)

/** What a schema's `.meta({ … })` says about its variable. */
interface VariableMeta {
  readonly secret?: boolean
  readonly generate?: 'hex32' | 'mnemonic'
  readonly description?: string
}

/** The metadata of a schema, wherever in its wrappers `.meta()` was called. */
export function metaOf(schema: Schema): VariableMeta & Record<string, unknown> {
  const own = z.globalRegistry.get(schema) ?? {}
  const inner = innerOf(withinOf(schema))
  return inner ? { ...metaOf(inner), ...own } : own
}

/** Whether the log masks the values of this variable. */
export const isSecret = (schema: Schema): boolean => metaOf(schema).secret === true

/** What the environment holds for one owner, the kernel or a plugin. */
export interface ParsedEnv {
  readonly values: Record<string, unknown>
  /** The names of the variables that are required and unset. */
  readonly missing: readonly string[]
  /** A fault for each variable whose value the schema refuses. */
  readonly faults: readonly RuntimeError[]
}

/** Parses the variables of one owner. An empty string counts as unset, as in a shell script. */
export function parseEnv(owner: string, shape: Shape, source: EnvSource): ParsedEnv {
  const values: Record<string, unknown> = {}
  const missing: string[] = []
  const faults: RuntimeError[] = []
  for (const [variable, schema] of Object.entries(shape)) {
    const value = source[variable] || undefined
    const parsed = parseVariable(schema, value)
    if (parsed.success) values[variable] = parsed.data
    else if (value === undefined) missing.push(variable)
    else faults.push(invalid(owner, variable, schema, value, parsed.expected))
  }
  return { values, missing, faults }
}

/** Parses one variable. A transform or refinement that throws has refused the value. */
function parseVariable(schema: Schema, value: string | undefined) {
  try {
    const parsed = z.safeParse(schema, value)
    if (parsed.success) return { success: true, data: parsed.data } as const
    const expected = parsed.error.issues.map((issue) => issue.message).join('; ')
    return { success: false, expected } as const
  } catch (thrown) {
    if (thrown instanceof z.core.$ZodAsyncError)
      return {
        success: false,
        expected: 'its schema waits, and variables are read at once',
      } as const
    // What was thrown may quote the value, as JSON.parse does.
    const isQuiet = isSecret(schema) || !(thrown instanceof Error)
    return { success: false, expected: isQuiet ? 'its schema threw' : thrown.message } as const
  }
}

function invalid(owner: string, variable: string, schema: Schema, value: string, expected: string) {
  const shown = isSecret(schema) ? 'a secret value that' : `"${value}", which`
  return new RuntimeError(
    'ENV_INVALID',
    `${variable} (${owner}) is ${shown} cannot be used: ${expected}.`,
    {
      hint: `Correct ${variable} or unset it.`,
    },
  )
}

/** A fault for each variable that two owners declare. */
export function checkVariables(
  owners: Iterable<readonly [owner: string, shape: Shape]>,
): RuntimeError[] {
  const ownerOf = new Map<string, string>()
  const faults: RuntimeError[] = []
  for (const [owner, shape] of owners)
    for (const variable of Object.keys(shape)) {
      const other = ownerOf.get(variable)
      if (other === undefined) ownerOf.set(variable, owner)
      else
        faults.push(
          new RuntimeError(
            'ENV_CONFLICT',
            `Both ${other} and ${owner} declare the variable ${variable}.`,
            {
              hint: 'Rename one of the two; a prefix with the plugin’s name keeps them apart.',
            },
          ),
        )
    }
  return faults
}

/** A fresh value for each variable that is unset and whose schema says how to generate one. */
export function generateMissing(
  shapes: Iterable<Shape>,
  source: EnvSource,
): Record<string, string> {
  const generated: Record<string, string> = {}
  for (const shape of shapes)
    for (const [variable, schema] of Object.entries(shape)) {
      const { generate } = metaOf(schema)
      if (generate && !source[variable]) generated[variable] = generators[generate]()
    }
  return generated
}

const generators = {
  hex32: () => randomBytes(32).toString('hex'),
  mnemonic: () => pronounceable(randomBytes(32)),
}

/** Two bytes a word, as consonant-vowel-consonant-vowel-consonant: readable aloud, 256 bits in 16 words. */
function pronounceable(bytes: Buffer): string {
  const consonants = 'bdfghjklmnprstvz'
  const vowels = 'aiou'
  const words: string[] = []
  for (let i = 0; i < bytes.length; i += 2) {
    const n = bytes.readUInt16BE(i)
    words.push(
      consonants[n >> 12]! +
        vowels[(n >> 10) & 3]! +
        consonants[(n >> 6) & 15]! +
        vowels[(n >> 4) & 3]! +
        consonants[n & 15]!,
    )
  }
  return words.join(' ')
}

/** The default as somebody would write it into the environment; what it becomes may be no text that a schema takes. */
function writtenDefault(schema: Schema): unknown {
  const def = withinOf(schema)
  const inner = innerOf(def)
  return def.defaultValue ?? (inner && writtenDefault(inner))
}

/** What a schema is made around. */
const innerOf = ({ innerType, in: taken }: Within): Schema | undefined => innerType ?? taken

/** The parts of a schema that wraps another; a default may be a function, which runs when it is read. */
interface Within {
  readonly defaultValue?: unknown
  readonly innerType?: Schema
  readonly in?: Schema
}
const withinOf = (schema: Schema) => schema._zod.def as Within

/** A value as a variable takes it: some take "on" and "off" alone for what is true and false. */
function written(schema: Schema, value: unknown): string {
  if (typeof value !== 'boolean' || parseVariable(schema, String(value)).success)
    return String(value)
  return value ? 'on' : 'off'
}

/** One row of the table that `npm run env` prints. */
export interface Variable {
  readonly name: string
  readonly owner: string
  readonly required: boolean
  readonly secret: boolean
  readonly generated: boolean
  readonly default: string | undefined
  readonly description: string
}

/** The variables of one owner, as the tables of variables show them. */
export function describeVariables(owner: string, shape: Shape): Variable[] {
  return Object.entries(shape).map(([name, schema]) => {
    const meta = metaOf(schema)
    const fallback = parseVariable(schema, undefined)
    const value = fallback.success ? fallback.data : undefined
    return {
      name,
      owner,
      required: !fallback.success,
      secret: meta.secret === true,
      generated: meta.generate !== undefined,
      default:
        value === undefined || meta.secret
          ? undefined
          : written(schema, writtenDefault(schema) ?? value),
      description: meta.description ?? '',
    }
  })
}
