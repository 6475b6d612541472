import { expect, test } from 'vitest'
import { onEachDatabase, onPostgres } from '../support/each-database.ts'
import { slowToStop } from '../support/fake-engines.ts'
import { type Replica, replica } from '../support/replica.ts'

/** Whether between the begin and the end of any run no other one was at it. */
function isInterleaved(log: readonly string[]): boolean {
  let open: string | undefined
  for (const line of log) {
    const [word, name] = line.split(' ')
    if (word === 'begin' ? open !== undefined : open !== name) return true
    open = word === 'begin' ? name : undefined
  }
  return false
}

const statusOf = async (turn: Awaited<ReturnType<Replica['stream']>>) =>
  (await turn.rest()).at(-1)?.data.status

await onEachDatabase('a newer message, with a fake engine', (where) => {
  test('ends the run of the older one as interrupted, and begins when that has let go', async () => {
    const log: string[] = []
    const here = await replica({ engine: slowToStop(log), ...where })
    const sessionId = await here.session()
    const first = await here.stream(`/messages/${sessionId}`, { message: 'first' })
    await first.until(({ event }) => event === 'message')
    const second = await here.stream(`/messages/${sessionId}`, { message: 'second' })
    expect(await statusOf(first)).toBe('interrupted')
    expect(await statusOf(second)).toBe('finished')
    expect(log).toEqual(['begin first', 'stop first', 'begin second', 'finish second'])
    const { body } = await here.call('GET', `/messages/${sessionId}`)
    expect(body.messages).toMatchObject([
      { type: 'human', content: 'first' },
      { type: 'ai', isComplete: false },
      { type: 'human', content: 'second' },
      { type: 'ai', isComplete: true },
    ])
  })

  test('is queued until then, and can be stopped there', async () => {
    const log: string[] = []
    const here = await replica({ engine: slowToStop(log, 300), ...where })
    const sessionId = await here.session()
    const first = await here.stream(`/messages/${sessionId}`, { message: 'first' })
    await first.until(({ event }) => event === 'message')
    const second = here.stream(`/messages/${sessionId}`, { message: 'second' })
    let run: { runId: string; status: string } | undefined
    while (run?.status !== 'queued')
      run = (await here.call('GET', `/sessions/${sessionId}/run`)).body.run
    await here.call('POST', '/messages/abort', { sessionId })
    expect(await statusOf(await second)).toBe('aborted')
    expect(await statusOf(first)).toBe('interrupted')
    expect(log).toEqual(['begin first', 'stop first'])
  })

  test('of many at once is the only one that finishes, and no two are ever at it together', async () => {
    const log: string[] = []
    const here = await replica({ engine: slowToStop(log, 5), ...where })
    const sessionId = await here.session()
    const turns = await Promise.all(
      Array.from({ length: 12 }, (_, i) =>
        here.stream(`/messages/${sessionId}`, { message: `number${i}` }),
      ),
    )
    const statuses = await Promise.all(turns.map(statusOf))
    expect(statuses.filter((status) => status === 'finished')).toHaveLength(1)
    expect(statuses.filter((status) => status === 'interrupted')).toHaveLength(11)
    expect(isInterleaved(log)).toBe(false)
    const { body } = await here.call('GET', `/messages/${sessionId}`)
    const humans = body.messages.filter(({ type }: { type: string }) => type === 'human')
    expect(humans).toHaveLength(12)
  })

  test('of another session disturbs nobody', async () => {
    const log: string[] = []
    const here = await replica({ engine: slowToStop(log), ...where })
    const turns = await Promise.all(
      ['a', 'b'].map(async (message) =>
        here.stream(`/messages/${await here.session()}`, { message }),
      ),
    )
    expect(await Promise.all(turns.map(statusOf))).toEqual(['finished', 'finished'])
  })
})

await onPostgres('a newer message on another replica, with a fake engine', (where) => {
  test('ends the older one there and begins here, never both at once', async () => {
    const log: string[] = []
    const here = await replica({ engine: slowToStop(log), ...where })
    const there = await replica({ engine: slowToStop(log), ...where })
    const sessionId = await here.session()
    const turns = []
    for (let i = 0; i < 6; i++)
      turns.push((i % 2 ? here : there).stream(`/messages/${sessionId}`, { message: `number${i}` }))
    const statuses = await Promise.all((await Promise.all(turns)).map(statusOf))
    expect(statuses.filter((status) => status === 'finished')).toHaveLength(1)
    expect(isInterleaved(log)).toBe(false)
  })
})
