import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { testApp, TestClock } from '#core/testing'
import { modelScript } from '../test/support/model-script.ts'
import { stallsDuring, toldStalls } from '../test/support/stalls.ts'

/**
 * Has a server on an SQLite file answer many turns, lets all of them become too old, and compares the size of the file
 * with the one of before; also the longest time that the event loop stood still meanwhile.
 */
const turns = Number(process.env.BENCH_TURNS ?? 10_000)
const perSession = 10
const atOnce = 8

const folder = mkdtempSync(join(tmpdir(), 'bench-retention-'))
const headers = { Authorization: 'Bearer the-operators-own-token' }
{
  await using app = await testApp({
    plugins: [],
    model: modelScript(() => `The pump was repaired, and water flows again. ${'word '.repeat(50)}`),
    clock: new TestClock(),
    env: {
      DATA_DIR: folder,
      OPERATOR_TOKEN: 'the-operators-own-token',
      SESSION_RETENTION_DAYS: '10',
      TURNS_PER_DAY: '1000000',
    },
  })
  const size = async () => (await app.get('/storage', { headers })).body
  const user = await app.user()
  await user.say('Hello')
  await app.clock.advance('20d')
  const before = await size()
  let left = Math.ceil(turns / perSession)
  const talk = async () => {
    while (left-- > 0) {
      const { sessionId } = await user.say('Hello')
      for (let turn = 1; turn < perSession; turn++) await user.say('And then?', { sessionId })
    }
  }
  await Promise.all(Array.from({ length: atOnce }, talk))
  const full = await size()
  const began = performance.now()
  const stalls = await stallsDuring(() => app.clock.advance('20d'))
  const tookMs = performance.now() - began
  const quiet = await stallsDuring(() => sleep(tookMs))
  const after = await size()
  const rows = (of: { tables: { rows: number }[] }) =>
    of.tables.reduce((sum, { rows }) => sum + rows, 0)
  console.log(
    `${turns} turns: ${before.bytes} bytes and ${rows(before)} rows before, ${full.bytes} and ${rows(full)} with them, ` +
      `${after.bytes} and ${rows(after)} after (${(after.bytes / before.bytes).toFixed(2)} times the bytes of before)`,
  )
  console.log(`the clean-up took ${Math.round(tookMs)} ms; ${toldStalls(stalls)}`)
  console.log(`as long with nothing to do: ${toldStalls(quiet)}`)
}
rmSync(folder, { recursive: true, force: true })
