import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { Target } from '../../bench/support/target.ts'

const connections = 16
const atOnce = 25
let dialled = 0

/** The request of an initial dial with a new session id. */
function dial(): string {
  const id = String(++dialled).padStart(9, '0')
  const body = `sessionId=ATUid_${id}&serviceCode=*384%23&phoneNumber=%2B254${id}&text=`
  return (
    'POST /api/ussd HTTP/1.1\r\nHost: localhost\r\n' +
    `Content-Type: application/x-www-form-urlencoded\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  )
}

/** Dials a number of times, over connections that each send many requests at once. */
async function dialOften(port: number, times: number): Promise<void> {
  let left = times
  const one = async () => {
    const socket = connect(port, '127.0.0.1').setEncoding('latin1')
    await once(socket, 'connect')
    while (left > 0) {
      const count = Math.min(atOnce, left)
      left -= count
      socket.write(Array.from({ length: count }, dial).join(''))
      let received = ''
      for (let welcomed = 0; welcomed < count; welcomed = received.split('CON Welcome').length - 1)
        received += String((await once(socket, 'data'))[0])
    }
    socket.end()
    await once(socket, 'close')
  }
  await Promise.all(Array.from({ length: connections }, one))
}

/** The size of the heap after several garbage collections, because one does not free everything. */
async function heap(target: Target): Promise<number> {
  for (let round = 0; round < 3; round++) {
    await sleep(300)
    await target.usage('gc')
  }
  return (await target.usage('gc')).heap
}

it('an idle session takes less than 2 kB, and of 100,000 nothing stays when they have expired', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'oracle-ussd-'))
  process.env.TARGET_DATA_DIR = join(folder, 'data')
  process.env.TARGET_TTL_SECONDS = '12'
  const script = join(import.meta.dirname, '../../test/support/ussd-target.ts')
  const target = new Target(script, 'gateway')
  onTestFinished(() => {
    target.process.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  })
  await target.start()
  const { port } = target
  const count = async () =>
    (
      (await (await fetch(`http://127.0.0.1:${port}/api/ussd/sessions`)).json()) as {
        count: number
      }
    ).count

  await dialOften(port, 1000)
  const start = await heap(target)
  await dialOften(port, 20_000)
  const idle = (await heap(target)) - start
  expect(idle / 20_000).toBeLessThan(2048)
  await dialOften(port, 80_000)
  await expect.poll(count, { timeout: 60_000, interval: 1000 }).toBe(0)
  // The gateway removes expired sessions from memory once a second.
  await expect
    .poll(async () => (await heap(target)) / start, { timeout: 60_000, interval: 1000 })
    .toBeLessThan(1.1)
}, 300_000)
