import { RuntimeError } from '#core'
import type { RouteContext } from '#core'
import { Frame } from './frame.ts'
import { invalid } from '../refusal.ts'
import { idPattern, shown } from '../request.ts'

/** What the NDJSON upload of a frame may hold at most. */
export const frameBytes = 256 * 1024 * 1024

/**
 * Reads a frame that comes line by line: an id as a string, `{ "stratum", "id" }`, or `{ "stratum", "ids": […] }`.
 * Without a stratum it is `all`. One bad line refuses the frame: a sample from half a list is worth nothing.
 */
export async function readFrame(lines: RouteContext['lines']): Promise<Frame> {
  const frame = new Frame()
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
    const { stratum = 'all', id, ids } = value as Line
    if (typeof stratum !== 'string')
      throw invalid(`line ${number}`, `give the name of a stratum, not ${shown(stratum)}`)
    const name = stratum.trim()
    if (ids === undefined) add(name, id)
    else if (Array.isArray(ids)) for (const each of ids) add(name, each)
    else throw invalid(`line ${number}`, `give a list of ids, not ${shown(ids)}`)
  }
  return frame
}

interface Line {
  readonly stratum?: unknown
  readonly id?: unknown
  readonly ids?: unknown
}
