import { faultsOf, RuntimeError, type RouteContext } from '#core'
import type { Actor } from '../rights/actor.ts'
import type { Creation, Outcome } from './creation.ts'
import { invalid, refused } from '../refusal.ts'
import { refuseLostDigitsOf } from '../digits.ts'
import { entitySchema, type EntityRequest } from '../request.ts'
import type { Write } from '../writing.ts'

type Lines = RouteContext['lines']

/** How many lines share a transaction, and so one sync of the disk. */
const atOnce = 500
/** After how many lines the answer has a line of progress. */
const progressEvery = 1000
/** The most lines of an atomic batch: its one transaction makes all other writers wait. */
const mostAtomic = 50_000
/** How many faults a refused batch lists. */
const listed = 100

interface Line {
  readonly number: number
  readonly request?: EntityRequest
  readonly error?: RuntimeError
}

/** Imports of many entities, a JSON object a line. */
export class Batches {
  readonly #write: Write
  readonly #creation: Creation

  constructor(write: Write, creation: Creation) {
    this.#write = write
    this.#creation = creation
  }

  /** The outcomes of some lines, in their order. */
  async #settle(actor: Actor, lines: readonly Line[]): Promise<Result[]> {
    const asked = await this.#creation.vet(lines.flatMap(({ request }) => request ?? []))
    const outcomes =
      asked.length > 0
        ? await this.#write(actor, (writing) => this.#creation.createAll(writing, asked))
        : []
    let at = 0
    return lines.map(({ number, error }) => resultOf(number, error ? { error } : outcomes[at++]!))
  }

  /** Creates each line on its own, so a faulty line does not stop the others. Yields results after their transaction is committed. */
  async *each(actor: Actor, lines: Lines): AsyncGenerator<string> {
    let waiting: Line[] = []
    let read = 0
    let failed = 0
    const flush = async (): Promise<string> => {
      const results = await this.#settle(actor, waiting)
      waiting = []
      for (const { error } of results) if (error) failed++
      const lines = results.map(asLine).join('')
      if (read % progressEvery !== 0) return lines
      return lines + asLine({ progress: { lines: read, created: read - failed, failed } })
    }
    for await (const line of lines) {
      waiting.push(readLine(line))
      read++
      if (waiting.length === atOnce) yield await flush()
    }
    if (waiting.length > 0) yield await flush()
  }

  /** Creates all lines or none. The lines may name each other in any order. */
  async together(actor: Actor, lines: Lines): Promise<string[]> {
    const read: Line[] = []
    for await (const line of lines) {
      read.push(readLine(line))
      if (read.length > mostAtomic)
        throw new RuntimeError(
          'BODY_TOO_LARGE',
          `An atomic batch takes ${mostAtomic} lines at most.`,
          { hint: 'Send the batch without atomic=true, or in parts.' },
        )
    }
    refuseIfAny(read.map(({ number, error }) => ({ number, error })))
    if (read.length === 0) return []
    const asked = await this.#creation.vet(read.flatMap(({ request }) => request ?? []))
    const outcomes = await this.#write(actor, async (writing) => {
      const outcomes = await this.#creation.createAll(writing, asked, true)
      refuseIfAny(outcomes.map(({ error }, at) => ({ number: read[at]!.number, error })))
      return outcomes
    })
    return outcomes.map((outcome, at) => asLine(resultOf(read[at]!.number, outcome)))
  }
}

function readLine({
  number,
  value,
  text,
  fault,
}: {
  number: number
  value?: unknown
  text?: string
  fault?: { message: string }
}): Line {
  if (fault) return { number, error: new RuntimeError('INVALID_JSON', fault.message) }
  const parsed = entitySchema.safeParse(value)
  if (parsed.success) {
    try {
      if (text !== undefined) refuseLostDigitsOf(text)
    } catch (error) {
      if (error instanceof RuntimeError) return { number, error }
      throw error
    }
    return { number, request: parsed.data }
  }
  const faults = faultsOf(parsed.error)
  return { number, error: faults.length > 0 ? refused(faults) : invalid('', 'not an entity') }
}

const asLine = (value: object): string => `${JSON.stringify(value)}\n`

interface Result {
  readonly line: number
  readonly status: number
  readonly did?: string
  readonly version?: number
  readonly error?: ReturnType<typeof rendered>
}

const resultOf = (line: number, { row, error }: Outcome): Result =>
  error
    ? { line, status: error.status, error: rendered(error) }
    : { line, status: 201, did: row.did, version: row.version }

const rendered = ({ code, message, hint, details }: RuntimeError) => ({
  code,
  message,
  hint,
  details,
})

function refuseIfAny(
  lines: readonly { readonly number: number; readonly error?: RuntimeError }[],
): void {
  const faulty = lines.filter(({ error }) => error !== undefined)
  const [first] = faulty
  if (!first?.error) return
  const { code, status, message, hint, headers } = first.error
  const more = faulty.length > 1 ? ` And ${faulty.length - 1} more lines.` : ''
  throw new RuntimeError(code, `Line ${first.number}: ${message}${more} Nothing was stored.`, {
    status,
    headers,
    hint,
    details: faulty.slice(0, listed).map(({ number, error }) => ({
      line: number,
      status: error!.status,
      error: rendered(error!),
    })),
  })
}
