import { expect, it, onTestFinished } from 'vitest'
import { freshDatabase } from '../support/database.ts'
import { readOn } from '../support/event-stream.ts'
import { say } from '../support/fake-engines.ts'
import { replica, type Replica } from '../support/replica.ts'
import { describeWith } from '../support/services.ts'

await describeWith(
  'postgres',
  'a server that is told to stop while it records a message',
  (url) => {
    it('sends the client on with the one run that there is, which goes on elsewhere', async () => {
      const { url: databaseUrl, drop } = await freshDatabase(url)
      onTestFinished(() => drop())
      const carried: string[] = []
      const engine =
        (name: string) => async (run: Parameters<typeof say>[0] & { runId: string }) => {
          carried.push(`${name} ${run.runId}`)
          await say(run, 'Done.')
          return { status: 'finished' as const }
        }
      const told = Promise.withResolvers<void>()
      const first: Replica = await replica({
        engine: engine('the first'),
        databaseUrl,
        at(moment) {
          if (moment !== 'after the run is recorded') return
          void first.runs.close()
          told.resolve()
        },
      })
      const second = await replica({ engine: engine('the second'), databaseUrl })
      const sessionId = await first.session()
      const turn = await first.stream(`/messages/${sessionId}`, { message: 'Do it once.' })
      await told.promise
      expect(turn.status).toBe(200)
      const runId = turn.headers.get('x-run-id') ?? ''
      const events = await turn.rest()
      expect(events.at(-1)).toMatchObject({ event: 'run', data: { runId, handover: true } })
      await readOn((after) => second.stream(`/runs/${runId}?after=${after}`), events)
      expect(events.at(-1)).toMatchObject({ event: 'done', data: { runId, status: 'finished' } })
      expect(carried).toEqual([`the second ${runId}`])
    })
  },
)
