import { createReadStream, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { audit, unverifiable, type Audited } from './audit/audit.ts'

export { audit } from './audit/audit.ts'

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

/** The lines that list every commitment of the design, and where other designs committed the same ids. */
function listed({ designId, commitments = [], sameFrame = [] }: Audited): string[] {
  return [
    ...(commitments.length > 0 ? [`Commitments of the design ${designId}:`] : []),
    ...commitments.map((one) => {
      const { number, committedAt, frameDigest, source, round, verifiable } = one
      const how = one.extends === undefined ? '' : `, extends number ${one.extends}`
      const when = one.selectedAt === undefined ? 'not drawn' : `drawn ${one.selectedAt}`
      const named = round === undefined ? source : `${source} round ${round}`
      return `  ${number}. ${committedAt}, frame ${frameDigest}, ${named}${how}, ${when}, verifiable: ${verifiable}`
    }),
    ...sameFrame.map(
      (other) =>
        `  The same ids were committed by the design ${other.designId} at ${other.committedAt}.`,
    ),
  ]
}

/**
 * Runs `npm run audit:sample selection.json ids.txt`: 0 when everything agrees, 1 when not, 2 for wrong arguments, and 3
 * when the ids agree and nothing shows that nobody chose them.
 */
async function main([selectionPath, framePath]: readonly string[]): Promise<number> {
  if (!selectionPath || !framePath) {
    process.stderr.write(
      'Name the answer of GET /v1/sampling/:designId/selection and the file of ids: npm run audit:sample selection.json ids.txt\n',
    )
    return 2
  }
  const selection = JSON.parse(readFileSync(selectionPath, 'utf8')) as Audited // a file of another form shows as differences
  const frame = await frameFrom(framePath)
  const found = audit(selection, frame)
  const lines = found.map((sentence) => `- ${sentence}`)
  const ids = [...frame.values()].reduce((sum, list) => sum + list.length, 0)
  const drawn = selection.strata?.reduce((sum, { ids }) => sum + ids.length, 0) ?? 0
  const reason = unverifiable(selection)
  const what = `${drawn} of ${ids} ids, frame ${selection.frameDigest}, round ${selection.round}`
  if (found.length === 0)
    lines.push(
      reason === undefined
        ? `The selection agrees: ${what}.`
        : `The ids can be drawn again (${what}), but the selection is not verifiable: ${reason}.`,
    )
  lines.push(`verifiable: ${reason === undefined && found.length === 0}`)
  if (found.length === 0 && selection.source.startsWith('ledger:'))
    lines.push(
      `Compare the value with the hash of block ${selection.round} at any node of the ledger.`,
    )
  lines.push(...listed(selection))
  process.stdout.write(`${lines.join('\n')}\n`)
  return found.length > 0 ? 1 : reason === undefined ? 0 : 3
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  process.exitCode = await main(process.argv.slice(2)).catch((error: Error) => {
    process.stderr.write(`${error.message}\n`) // a file does not exist or holds no JSON
    return 2
  })
