import { createReadStream, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { Frame, RepeatedId } from './selection/frame.ts'
import type { Selection } from './design/record.ts'
import { sampler, seedOf } from './selection/sampler.ts'

/**
 * Draws a selection again, from the ids and the value of the beacon alone, and says where it differs. Of the
 * selection only its claims are used: who audits needs no key and no server.
 */
export function audit(selection: Selection, frame: ReadonlyMap<string, string[]>): string[] {
  let digest: string
  try {
    digest = digestOf(frame)
  } catch (error) {
    if (error instanceof RepeatedId) return [error.message]
    throw error
  }
  const { designId, frameDigest, beaconHex, strata, external } = selection
  const found: string[] = []
  if (digest !== frameDigest)
    found.push(`The ids hash to ${digest}, but ${frameDigest} was committed.`)
  if (!strata) return [...found, 'Nothing is drawn yet.']
  for (const { name, seed, ids, reserves } of strata) {
    const all = frame.get(name) ?? []
    if (external) {
      const known = new Set(all)
      for (const id of ids)
        if (!known.has(id)) found.push(`"${id}" of stratum "${name}" is not in the frame.`)
      continue
    }
    const expected = seedOf({ designId, stratum: name, frameDigest, beaconHex: beaconHex ?? '' })
    if (seed !== expected) found.push(`The seed of stratum "${name}" is not ${expected}.`)
    const claimed = [...ids, ...reserves]
    const drawing = sampler(expected, claimed.length)
    for (const id of all) drawing.offer(id)
    const drawn = drawing.drawn()
    const at = claimed.findIndex((id, index) => id !== drawn[index])
    if (at >= 0)
      found.push(
        `In stratum "${name}" place ${at + 1} is "${claimed[at]}", but "${drawn[at] ?? 'nobody'}" was drawn.`,
      )
  }
  return found
}

function digestOf(strata: ReadonlyMap<string, string[]>): string {
  const frame = Frame.of(strata)
  // The digest is known when all parts have been seen.
  for (const _ of frame.parts());
  return frame.digest()
}

/** Reads a frame from a file: an id on each line, or `stratum<TAB>id`. */
export async function frameFrom(path: string): Promise<Map<string, string[]>> {
  const frame = new Map<string, string[]>()
  for await (const line of createInterface({
    input: createReadStream(path),
    crlfDelay: Infinity,
  })) {
    if (line === '') continue
    const tab = line.indexOf('\t')
    const stratum = tab < 0 ? 'all' : line.slice(0, tab)
    const ids = frame.get(stratum)
    if (ids) ids.push(line.slice(tab + 1))
    else frame.set(stratum, [line.slice(tab + 1)])
  }
  return frame
}

/** `npm run audit:sample selection.json ids.txt`: 0 when everything agrees, 1 when not, 2 when asked wrongly. */
async function main([selectionPath, framePath]: readonly string[]): Promise<number> {
  if (!selectionPath || !framePath) {
    process.stderr.write(
      'Name the answer of GET /v1/sampling/:designId/selection and the file of ids: npm run audit:sample selection.json ids.txt\n',
    )
    return 2
  }
  const selection = JSON.parse(readFileSync(selectionPath, 'utf8')) as Selection // what is not so shows as a difference
  const frame = await frameFrom(framePath)
  const found = audit(selection, frame)
  for (const sentence of found) process.stdout.write(`- ${sentence}\n`)
  const ids = [...frame.values()].reduce((sum, list) => sum + list.length, 0)
  const drawn = selection.strata?.reduce((sum, { ids }) => sum + ids.length, 0) ?? 0
  if (found.length === 0)
    process.stdout.write(
      `The selection agrees: ${drawn} of ${ids} ids, frame ${selection.frameDigest}, round ${selection.round}.\n`,
    )
  return found.length === 0 ? 0 : 1
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  process.exitCode = await main(process.argv.slice(2)).catch((error: Error) => {
    process.stderr.write(`${error.message}\n`) // a file that is not there, or is no JSON
    return 2
  })
