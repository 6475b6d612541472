import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { RuntimeError } from '../../errors.ts'
import { meant } from '../../manifest/did-you-mean.ts'
import type { OfferSettings } from '../../plugin.ts'
import { mostDollars } from './usage/counts.ts'

/** Settings by the id of a model, in which `*` stands for any text. */
export type SettingsByPattern = Readonly<Record<string, OfferSettings>>

/** The most characters of MODEL_SETTINGS, or of the file that it names. */
const mostText = 256 * 1024

const milliseconds = z.int('a whole number of milliseconds').min(1).max(3_600_000)
const dollars = z
  .number('US dollars for a million tokens')
  .min(0, 'no price below 0')
  .max(mostDollars, 'no price above 1,000,000')
const mediaTypes = z.array(z.string().regex(/^[\w.+-]+\/[\w.+*-]+$/, 'a media type')).max(50)
const line = z.string().max(500)

/** Fields of a request that nobody sets by hand: the runtime writes them. */
const written = ['messages', 'tools', 'stream']

const settingsSchema = z.strictObject({
  temperature: z.number().min(0).max(10).optional(),
  topP: z.number().min(0).max(1).optional(),
  maxOutputTokens: z.int().min(1).max(100_000_000).optional(),
  reasoning: z.enum(['none', 'low', 'medium', 'high', 'max']).optional(),
  contextWindow: z.int().min(1000, 'at least 1,000 tokens').max(1_000_000_000).optional(),
  reads: z
    .strictObject({
      image: mediaTypes.optional(),
      audio: mediaTypes.optional(),
      file: mediaTypes.optional(),
    })
    .optional(),
  price: z
    .strictObject({
      input: dollars,
      output: dollars,
      cachedInput: dollars.optional(),
      cacheWrite: dollars.optional(),
    })
    .optional(),
  label: line.optional(),
  tier: z.enum(['everyday', 'balanced', 'top']).optional(),
  blurb: line.optional(),
  badge: line.optional(),
  baseUrl: z.url().optional(),
  keyFrom: z
    .string()
    .regex(/^[A-Z][A-Z0-9_]*$/, 'the name of a variable')
    .optional(),
  wire: z.enum(['chat', 'responses']).optional(),
  headers: z.record(z.string(), z.string()).optional(),
  body: z
    .record(z.string(), z.unknown())
    .refine((body) => !written.some((name) => name in body), `it never names ${written.join(', ')}`)
    .optional(),
  attempts: z.int().min(1).max(10).optional(),
  connectMs: milliseconds.optional(),
  firstTokenMs: milliseconds.optional(),
  idleMs: milliseconds.optional(),
  stallMs: milliseconds.optional(),
})
const known = Object.keys(settingsSchema.shape)

/** What is set for models: by the app, and over that by the operator. */
export class SettingsOfModels {
  readonly faults: readonly RuntimeError[]
  readonly #lines: readonly (readonly [pattern: string, settings: OfferSettings])[]

  /** `text` is the value of MODEL_SETTINGS: JSON, or the path of a file with it. */
  constructor(option: SettingsByPattern | undefined, text: string | undefined) {
    const faults: RuntimeError[] = []
    this.#lines = [
      ...linesOf('modelSettings', option ?? {}, faults),
      ...(text === undefined ? [] : linesOf('MODEL_SETTINGS', read(text, faults), faults)),
    ]
    this.faults = faults
  }

  /** The settings of a model that has these ids. Later lines win, field by field. */
  of(ids: readonly string[]): OfferSettings {
    const all = this.#lines.filter(([pattern]) => ids.some((id) => matches(pattern, id)))
    return Object.assign({}, ...all.map(([, settings]) => settings)) as OfferSettings
  }

  /** A sentence for each pattern that none of these ids matches. */
  unmatched(ids: readonly string[]): string[] {
    return this.#lines
      .filter(([pattern]) => !ids.some((id) => matches(pattern, id)))
      .map(([pattern]) => {
        const hint = meant(pattern, ids)
        return `The settings of "${pattern}" belong to no model of MODEL.${hint && ` ${hint}`}`
      })
  }
}

function read(text: string, faults: RuntimeError[]): unknown {
  const isJson = text.trimStart().startsWith('{')
  try {
    const json = isJson ? text : readFileSync(text, 'utf8')
    if (json.length > mostText) throw new Error(`it has more than ${mostText} characters`)
    return JSON.parse(json)
  } catch (error) {
    // The words of the JSON parser may quote the text, which may hold a header with a key.
    const { code } = error as NodeJS.ErrnoException
    const why = isJson || !code ? 'is no JSON' : `names a file that cannot be read (${code})`
    faults.push(
      new RuntimeError('ENV_INVALID', `MODEL_SETTINGS ${why}.`, {
        hint: 'Write {"<id of a model>": {"temperature": 0.2}}, or the path of a file with such JSON.',
      }),
    )
    return {}
  }
}

function linesOf(
  where: string,
  given: unknown,
  faults: RuntimeError[],
): (readonly [string, OfferSettings])[] {
  const isRecord = typeof given === 'object' && given !== null && !Array.isArray(given)
  if (!isRecord) {
    faults.push(new RuntimeError('ENV_INVALID', `${where} is no object of settings by model.`))
    return []
  }
  return Object.entries(given).flatMap(([pattern, settings]) => {
    const parsed = settingsSchema.safeParse(settings)
    if (parsed.success) return [[pattern, parsed.data] as const]
    for (const issue of parsed.error.issues) faults.push(faultOf(where, pattern, issue))
    return []
  })
}

/** A fault that says where it is and never what stands there: a header may be a key. */
function faultOf(where: string, pattern: string, issue: z.core.$ZodIssue): RuntimeError {
  const place = [pattern, ...issue.path].join('.')
  if (issue.code !== 'unrecognized_keys')
    return new RuntimeError(
      'ENV_INVALID',
      `${where}: "${place}" cannot be used: ${issue.message}.`,
      { hint: `Correct it in ${where}, or leave it out.` },
    )
  const key = issue.keys[0] ?? ''
  return new RuntimeError('ENV_INVALID', `${where}: "${place}" has no setting "${key}".`, {
    hint: meant(key, known) || `The settings are ${known.join(', ')}.`,
  })
}

function matches(pattern: string, id: string): boolean {
  const source = pattern.split('*').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${source.join('.*')}$`, 's').test(id)
}
