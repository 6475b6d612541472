import { RuntimeError } from '#core'
import type { RouteContext } from '#core'
import { Frame } from './frame.ts'
import { invalid } from './refusal.ts'
import { idPattern } from './request.ts'

/** What the NDJSON upload of a frame may hold at most. */
export const frameBytes = 256 * 1024 * 1024

/**
 * Reads a frame that comes line by line: an id as a string, `{ "stratum", "id" }`, or `{ "stratum", "ids": […] }`.
 * Without a stratum it is `all`. One bad line refuses the frame: a sample from half a list is worth nothing.
 */
export async function readFrame(lines: RouteContext['lines']): Promise<Frame> {
  const frame = new Frame()
  for await (const { number, value, fault } of lines) {
    if (fault) throw new RuntimeError('INVALID_JSON', `Line ${number}: ${fault.message}`)
    const { stratum, ids } = lineOf(value)
    for (const id of ids) {
      if (typeof id !== 'string' || !idPattern.test(id))
        throw invalid(
          `line ${number}`,
          'give an id of 1 to 200 characters, none of them a line break',
        )
      frame.add(stratum, id)
    }
  }
  return frame
}

function lineOf(value: unknown): { stratum: string; ids: readonly unknown[] } {
  if (typeof value !== 'object' || value === null) return { stratum: 'all', ids: [value] }
  const stratum = 'stratum' in value ? String(value.stratum).trim() : 'all'
  if ('ids' in value && Array.isArray(value.ids)) return { stratum, ids: value.ids }
  return { stratum, ids: ['id' in value ? value.id : undefined] }
}
