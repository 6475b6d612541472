import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { callerOf, sayTo } from '../support/caller.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { openStream } from '../support/event-stream.ts'
import { startServer } from '../support/process.ts'

const pin = 'pin-5519-known'

interface Step {
  readonly kind: string
  readonly at: number
  readonly ms: number
  readonly tool?: string
  readonly toolCallId?: string
  readonly within?: string
  readonly decision?: string
  readonly loaded?: readonly string[]
}
interface Trace {
  readonly startedAt: string
  readonly endedAt: string
  readonly status: string
  readonly usage: object
  readonly steps: readonly Step[]
}

/** Which part of a turn its steps tell of: each moment is within a step, or in the gap between a killed process and the next. */
function toldShare({ startedAt, endedAt, steps }: Trace): number {
  const [begin, end] = [Date.parse(startedAt), Date.parse(endedAt)]
  const spans = steps
    .filter(({ within, ms }) => within === undefined && ms > 0)
    .map(({ at, ms }): [number, number] => [at, at + ms])
  for (const { at } of steps.filter(({ kind }) => kind === 'takeover')) {
    const before = spans.filter(([from]) => from < at).map(([, to]) => to)
    // The process that takes over has only just begun, and imports what a turn needs.
    const then = spans.filter(([from]) => from > at).map(([from]) => from)
    spans.push([Math.max(...before), Math.min(...then)])
  }
  let [told, upTo] = [0, begin]
  for (const [from, to] of spans.sort(([a], [b]) => a - b)) {
    told += Math.max(0, Math.min(to, end) - Math.max(from, upTo))
    upTo = Math.max(upTo, to)
  }
  return told / (end - begin)
}

/** Carries the turn out in three processes, of which the first is killed; resolves to its trace and all that was said. */
async function walk(databaseUrl?: string) {
  const folder = await mkdtemp(join(tmpdir(), 'trace-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const outputs: (() => string)[] = []
  const start = async (part: string) => {
    const server = startServer('test/support/trace-server.ts', {
      ...(databaseUrl && { DATABASE_URL: databaseUrl }),
      ...{ DATA_DIR: folder, NODE_ENV: 'test', ORACLE_MNEMONIC: 'words of these servers' },
      ...{ RUN_LEASE_MS: '500', PART: part, PIN: pin, LOG_LEVEL: 'trace' },
    })
    onTestFinished(() => void server.end('SIGKILL'))
    outputs.push(server.output)
    return { ...server, at: await server.url }
  }
  const first = await start('first')
  const caller = await callerOf(first.at)
  const headers = async () => ({ ...(await caller.headers()) })
  const get = async (path: string) => (await fetch(path, { headers: await headers() })).json()
  expect((await sayTo(first.at, headers, 'Good day.')).text).toBe('Warm.')
  const made = await fetch(`${first.at}/sessions`, { method: 'POST', headers: await headers() })
  const { sessionId } = (await made.json()) as { sessionId: string }
  const said = { message: 'Do it all.', approvals: true }
  const turn = await openStream(`${first.at}/messages/${sessionId}`, await headers(), said)
  const runId = turn.headers.get('x-run-id') ?? ''
  const cut = turn.rest().catch(() => [])
  await expect.poll(first.output, { timeout: 60_000 }).toContain('the tool holds on')
  const traceOf = async (at: string, id: string) => (await get(`${at}/runs/${id}/trace`)) as Trace
  const models = async () =>
    (await traceOf(first.at, runId)).steps.filter(({ kind }) => kind === 'model').length
  await expect.poll(models, { timeout: 20_000 }).toBe(6)
  expect(await first.end('SIGKILL')).toBe('SIGKILL')
  await cut

  const second = await start('second')
  const newest = async (at: string) => {
    const answer = await get(`${at}/sessions/${sessionId}/runs`)
    return (answer as { runs: { runId: string; status: string }[] }).runs[0]
  }
  const status = async () => (await newest(second.at))?.status
  await expect.poll(status, { timeout: 60_000 }).toBe('waiting')
  expect(await second.end()).toBe(0)

  const third = await start('third')
  expect((await sayTo(third.at, headers, 'Good day.')).text).toBe('Warm.')
  const path = `${third.at}/runs/${runId}/resume`
  const resumed = await openStream(path, await headers(), { decision: 'approve' })
  const done = (await resumed.rest()).findLast(({ event }) => event === 'done')?.data
  const trace = await traceOf(third.at, (await newest(third.at))?.runId ?? '')
  await third.end()
  return { trace, done, output: outputs.map((output) => output()).join() }
}

/** How many turns are taken at most: on a machine under load, what lies between two steps may take its time. */
const mostWalks = 4

const named = ({ kind, tool }: Step) => (tool === undefined ? kind : `${kind} ${tool}`)

await onEachDatabase('one turn with everything in it', ({ databaseUrl }) => {
  it('is told in order, with times that add up and what done said of its usage, and without what is redacted', async () => {
    let share = 0
    for (let walks = 0; walks < mostWalks && share < 0.95; walks++) {
      const { trace, done, output } = await walk(databaseUrl)
      expect([done.status, trace.status]).toEqual(['finished', 'finished'])
      const outer = trace.steps.filter(({ within }) => within === undefined)
      expect(outer.map(named)).toEqual([
        ...['request', 'user', 'model', 'tool load_capability', 'load'],
        ...['model', 'tool pump', 'tool dip', 'model', 'tool call_clerk', 'model'],
        ...['takeover', 'tool hold', 'model', 'approval buy', 'approval', 'tool buy', 'model'],
        'end',
      ])
      const clerk = outer.find(({ tool }) => tool === 'call_clerk')
      const inner = trace.steps.filter(({ within }) => within !== undefined)
      expect(inner.map((step) => [named(step), step.within])).toEqual(
        ['model', 'tool dip', 'model'].map((name) => [name, clerk?.toolCallId]),
      )
      expect(outer.find(({ kind }) => kind === 'load')?.loaded).toEqual(['well'])
      expect(outer.find(({ decision }) => decision !== undefined)?.decision).toBe('approve')
      const [pump, dip] = outer.filter(({ tool }) => tool === 'pump' || tool === 'dip')
      expect(dip!.at, 'both ran at the same time').toBeLessThan(pump!.at + pump!.ms)

      const now = toldShare(trace)
      console.log(`${(now * 100).toFixed(1)} % of the turn's time is within its steps.`)
      expect(now).toBeLessThanOrEqual(1)
      share = Math.max(share, now)
      expect(done.usage).toMatchObject({ ...trace.usage })
      expect(trace.usage).toMatchObject({ calls: 8, inputTokens: 320, outputTokens: 32 })

      const told = JSON.stringify(trace)
      expect(told).toContain('[redacted]')
      expect([told, output].join()).not.toContain(pin)
    }
    expect(share).toBeGreaterThan(0.95)
  }, 400_000)
})
