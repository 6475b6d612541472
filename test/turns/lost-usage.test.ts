import { afterEach, expect, test } from 'vitest'
import { killChildren } from '../support/child.ts'
import { openOffice, patient } from '../support/clerk.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { openStream } from '../support/event-stream.ts'

afterEach(killChildren)

/** How a run ends whose process has died, by what stands in its row. */
const ends = [
  ['stopped', `stop = 'aborted'`, { status: 'aborted', cause: 'stopped' }],
  ['given up after too many takeovers', 'attempts = 9', { status: 'interrupted' }],
  ['set aside', 'deaths = 2', { status: 'failed' }],
] as const

await onEachDatabase('an answer whose process died in the middle', (where) => {
  test.for(ends)(
    'is told with an estimate of its cost when it is %s',
    { timeout: 120_000 },
    async ([, row, end]) => {
      const office = await openOffice(where)
      const first = await office.serve({ leaseMs: 2_000 })
      const { sessionId } = (await first.post('/sessions', {})).body
      const stream = await openStream(`${first.url}/messages/${sessionId}`, await first.headers(), {
        message: 'Hold shut',
      })
      await stream.until(({ event }) => event === 'message')
      // The end of another turn brings the words of all into the database.
      const other = (await first.post('/sessions', {})).body.sessionId
      await first.send(other, 'Hello')
      // Where no other server follows the run, its words are written with a batch.
      const written = () =>
        office.rows(`select e.run_id from kernel_run_events e join kernel_runs r on r.id = e.run_id
          where r.session_id = '${sessionId}' and e.body like '%Well%'`)
      await expect.poll(written, patient).not.toEqual([])
      await first.kill()
      await office.rows(
        `update kernel_runs set ${row} where session_id = '${sessionId}' returning id`,
      )
      const second = await office.serve()
      const done = () => office.of('end').length
      await expect.poll(done, patient).toBe(2)
      const { body } = await second.get(`/messages/${sessionId}`)
      expect(body.messages[1].content).toMatch(/^Well, /)
      await office.close()
      const told = (await office.ends()).find((each) => each.sessionId === sessionId)
      expect(told).toMatchObject({ ...end, said: true })
      expect(told?.usage).toEqual([
        {
          model: 'test/clerk',
          calls: 1,
          inputTokens: expect.any(Number),
          outputTokens: 2,
          estimated: true,
          cost: null,
        },
      ])
      expect(told?.usage[0]?.inputTokens).toBeGreaterThan(1)
    },
  )
})
