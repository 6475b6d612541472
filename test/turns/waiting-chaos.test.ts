import { randomUUID } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, onTestFinished, test } from 'vitest'
import { type Child, killChildren, startChild } from '../support/child.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { openStream } from '../support/event-stream.ts'
import type { ServerSettings } from '../support/run-server.ts'
import { someone } from '../support/server.ts'

afterEach(killChildren)

const headers = { Authorization: `Bearer ${someone}`, 'Content-Type': 'application/json' }

/** Where a process may die, with a turn of a plugin that waits or is about to. */
const deaths: readonly NonNullable<ServerSettings['dies']>[] = [
  { at: 'after the turn is queued' },
  { at: 'before the end is kept' },
  { at: 'after the end is kept' },
  { at: 'before a waiting turn begins' },
  { at: 'before the run is recorded', nth: 3 },
  { at: 'after the run is recorded', nth: 2 },
]

await onEachDatabase('a turn that waits when its process dies', ({ databaseUrl }) => {
  test.for(deaths)('begins once when it dies $at', { timeout: 60_000 }, async (dies) => {
    const folder = mkdtempSync(join(tmpdir(), 'waiting-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const payments = join(folder, 'payments')
    const server = async (settings: Partial<ServerSettings>): Promise<[Child, string]> => {
      const data = databaseUrl ? { databaseUrl } : { dataDir: join(folder, 'data') }
      const all = { ...data, leaseMs: 500, payments, ...settings }
      const child = startChild('./run-server.ts', [JSON.stringify(all)])
      const [url = ''] = await child.printed(1)
      return [child, url]
    }
    const [first, url] = await server({ dies, hears: true })
    const made = await fetch(`${url}/sessions`, { method: 'POST', headers })
    const { sessionId } = (await made.json()) as { sessionId: string }
    const answer = await openStream(`${url}/messages/${sessionId}`, headers, { message: 'Hold' })
    await answer.until(({ event }) => event === 'message')
    first.process.stdin?.write(
      `${JSON.stringify({ user: { did: someone }, session: sessionId, message: 'Pay 5', requestId: randomUUID() })}\n`,
    )
    const isDead = new Promise((resolve) => first.process.once('close', resolve))
    if (dies.at !== 'after the turn is queued') {
      const [, begun = ''] = await first.printed(2)
      expect(JSON.parse(begun)).toMatchObject({ state: 'queued', isNew: true })
    } else await isDead
    writeFileSync(`${payments}-go`, '')
    await isDead

    const [, again] = await server({})
    // any: the assertions below say what is expected of it
    const read = async (path: string): Promise<any> =>
      (await fetch(`${again}${path}`, { headers })).json()
    await expect
      .poll(() => read(`/sessions/${sessionId}/run`), { timeout: 30_000 })
      .toEqual({ run: null, waitingTurns: 0 })
    const { messages } = await read(`/messages/${sessionId}`)
    expect(messages.map(({ content }: { content: string }) => content)).toEqual([
      'Hold',
      'Paying. ',
      'It is all done now.',
      'Pay 5',
      'Paying. ',
      'It is all done now.',
    ])
    const paid = existsSync(payments) ? readFileSync(payments, 'utf8').trim().split('\n') : []
    expect(paid).toHaveLength(2)
    expect(new Set(paid).size).toBe(2)
  })
})
