import { giveWay, RuntimeError } from '#core'
import type { RouteContext } from '#core'
import { Frame } from './frame.ts'
import { invalid } from '../refusal.ts'
import { shown } from '../wants.ts'
import type { z } from 'zod'
import { frameSchema, idPattern, type NonAdopters } from './request.ts'

/** The most bytes of a frame that is sent as NDJSON. */
export const frameBytes = 256 * 1024 * 1024

/** How many ids are taken between two looks at the clock. */
const idsInStretch = 1000

/** Collects the ids of a frame that came whole, and lets other requests be served in between. */
export async function frameOf(strata: Readonly<Record<string, readonly string[]>>): Promise<Frame> {
  const frame = new Frame()
  for (const [stratum, ids] of Object.entries(strata))
    for (const [at, id] of ids.entries()) {
      frame.add(stratum, id)
      if (at % idsInStretch === 0) await giveWay()
    }
  return frame
}

/**
 * Reads a frame line by line. A line is an id as a string, `{ "stratum", "id" }`, or `{ "stratum", "ids": […] }`; without
 * a stratum the ids are in the stratum `all`, and `"nonAdopter": true` marks the ids of the line. One bad line refuses the
 * whole frame, because a sample from an incomplete list is not representative.
 */
export async function readFrame(lines: RouteContext['lines']): Promise<Marked> {
  const frame = new Frame()
  const marked = new Map<string, number>()
  for await (const { number, value, fault } of lines) {
    if (fault)
      throw new RuntimeError('INVALID_JSON', `Line ${number}: ${fault.message}`, {
        hint: 'Nothing is committed. Correct the line and send the whole frame again.',
        details: [{ path: `line ${number}`, message: fault.message }],
      })
    const add = (stratum: string, id: unknown) => {
      if (typeof id === 'string' && idPattern.test(id)) return frame.add(stratum, id)
      throw invalid(
        `line ${number}`,
        `give an id of 1 to 200 characters, none of them a line break, not ${shown(id)}`,
      )
    }
    if (typeof value !== 'object' || value === null) {
      add('all', value)
      continue
    }
    const { stratum = 'all', id, ids, nonAdopter = false } = value as Line
    if (typeof stratum !== 'string')
      throw invalid(`line ${number}`, `give the name of a stratum, not ${shown(stratum)}`)
    const name = stratum.trim()
    if (typeof nonAdopter !== 'boolean')
      throw invalid(`line ${number}`, `give true or false as nonAdopter, not ${shown(nonAdopter)}`)
    if (nonAdopter)
      marked.set(name, (marked.get(name) ?? 0) + (Array.isArray(ids) ? ids.length : 1))
    if (ids === undefined) add(name, id)
    else if (Array.isArray(ids)) for (const each of ids) add(name, each)
    else throw invalid(`line ${number}`, `give a list of ids, not ${shown(ids)}`)
  }
  return marked.size === 0 ? { frame } : { frame, nonAdopterCounts: Object.fromEntries(marked) }
}

/** A frame with the number of ids by stratum that its lines mark as non-adopters. */
type Marked = { readonly frame: Frame } & Pick<NonAdopters, 'nonAdopterCounts'>

interface Line {
  readonly stratum?: unknown
  readonly id?: unknown
  readonly ids?: unknown
  readonly nonAdopter?: unknown
}

/** The frame of a commitment, as JSON or line by line. */
export async function sentFrame(
  frame: z.output<typeof frameSchema> | undefined,
  { koa, lines }: Pick<RouteContext, 'koa' | 'lines'>,
) {
  if (frame) return { frame: await frameOf(frame) }
  if (koa.is('json', '+json'))
    throw invalid(
      'frame',
      'missing; give ids by stratum, or a frameQuery',
      'A frame line by line comes with Content-Type: application/x-ndjson.',
    )
  const { frame: read, ...marks } = await readFrame(lines)
  return { frame: read, marks }
}
