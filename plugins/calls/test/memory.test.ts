import { fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { callerOf } from '../../../test/support/caller.ts'
import { Page } from '../../../test/support/call-page.ts'
import type { MeasuredProcess } from '../../../test/support/measured-calls-server.ts'
import { root } from '../../../test/support/process.ts'

const many = 500
const patient = { timeout: 60_000, interval: 50 }
const sound = /werift|libopus|fvad/

/** A server in a process of its own, and somebody who calls it. */
async function start() {
  const server = fork(join(root, 'test/support/measured-calls-server.ts'), {
    execArgv: [
      ...['--disable-warning=ExperimentalWarning', '--conditions=oracle-runtime-source'],
      ...['--expose-gc', '--import', join(root, 'test/support/measured-thread.ts')],
    ],
  })
  onTestFinished(() => void server.kill('SIGKILL'))
  const [{ url }] = (await once(server, 'message')) as [{ url: string }]
  /** So many threads are asked: the main one, and that of sound once it runs. */
  const measure = async (threads: 1 | 2) => {
    server.send(threads)
    return ((await once(server, 'message')) as [MeasuredProcess])[0]
  }
  const caller = await callerOf(url)
  let address = 0
  // A client keeps its token for some minutes, and a server remembers the newest thousands: here it is the calls that count.
  let tokens = await caller.headers()
  const ask = async (method: string, path: string, body?: object) => {
    // Ten calls a minute are let through from one address.
    const place = `198.51.${100 + Math.floor(++address / 250)}.${address % 250}`
    if (address % 100 === 0) tokens = await caller.headers()
    const headers = { 'content-type': 'application/json', 'x-forwarded-for': place }
    const response = await fetch(url + path, {
      ...{ method, headers: { ...headers, ...tokens } },
      ...(body && { body: JSON.stringify(body) }),
    })
    const told = (await response.json()) as Record<string, any>
    expect(response.status, JSON.stringify(told)).toBeLessThan(300)
    return told
  }
  const { sessionId } = await ask('POST', '/sessions', {})
  const begin = async () => {
    const page = new Page()
    const sdp = await page.offer()
    const { callId, sdp: answer } = await ask('POST', '/calls', {
      sessionId,
      callType: 'audio',
      sdp,
    })
    await page.accept(answer)
    return { page, end: () => ask('DELETE', `/calls/${callId}`) }
  }
  return { measure, begin }
}

describe.skipIf(!existsSync('/proc/self/net/udp'))('the process of an oracle', () => {
  test('has nothing of sound in memory before the first call, and all of it in another thread', async () => {
    const { measure, begin } = await start()
    const idle = await measure(1)
    expect(idle.threads).toHaveLength(1)
    expect(idle.threads[0]?.packages.length).toBeGreaterThan(0)
    expect(idle.threads[0]?.packages.filter((file) => sound.test(file))).toEqual([])
    expect(idle.udpSockets).toBe(0)
    const { page } = await begin()
    await expect.poll(() => page.of('ready').length, patient).toBe(1)
    const called = await measure(2)
    const [main, other] = called.threads.map(({ packages }) =>
      packages.filter((file) => sound.test(file)),
    )
    expect(main).toEqual([])
    for (const name of ['werift', 'libopus', 'fvad'])
      expect(other?.some((file) => file.includes(name))).toBe(true)
    expect(called.udpSockets).toBeGreaterThan(0)
  })

  test(`gives back what ${many} calls took, one after the other`, async () => {
    const { measure, begin } = await start()
    const once = async (nth: number) => {
      const { page, end } = await begin()
      for (let i = 1; i <= 5; i++) await page.packet(Uint8Array.of(0xf8, 0xff, 0xfe), i)
      if (nth % 10 === 0) {
        page.send({ type: 'say', id: 'a', text: 'Are you there?' })
        await expect.poll(() => page.said, patient).toBe('I am here.')
      }
      await end()
      await page.close()
    }
    /** What is left once the last calls are over for both threads: their timers keep parts of them for some seconds. */
    const settled = async () => {
      await expect.poll(async () => (await measure(2)).udpSockets, patient).toBe(0)
      const sizes = ({ threads }: MeasuredProcess) =>
        threads.flatMap(({ heapUsed, external }) => [heapUsed, external])
      let last = await measure(2)
      for (let looks = 0; looks < 30; looks++) {
        await sleep(2_000)
        const now = await measure(2)
        const before = sizes(last)
        if (sizes(now).every((size, nth) => Math.abs(size / before[nth]! - 1) < 0.005)) return now
        last = now
      }
      return last
    }
    // What is made once and kept (code that was compiled, tables of prompts) is made by the first ones.
    for (let i = 0; i < 100; i++) await once(i)
    const before = await settled()
    const began = performance.now()
    for (let i = 0; i < many; i++) await once(i)
    const seconds = Math.round((performance.now() - began) / 1_000)
    const after = await settled()
    for (const thread of [0, 1]) {
      const [was, is] = [before.threads[thread]!, after.threads[thread]!]
      const mb = (bytes: number) => (bytes / 2 ** 20).toFixed(1)
      console.log(
        `${many} calls in ${seconds} s, thread ${thread}: heap ${mb(was.heapUsed)} → ${mb(is.heapUsed)} MiB, ` +
          `beside it ${mb(was.external)} → ${mb(is.external)} MiB`,
      )
      expect(is.heapUsed).toBeLessThan(was.heapUsed * 1.1)
      expect(is.external).toBeLessThan(was.external * 1.1 + 2 ** 20)
    }
  }, 1_800_000)
})
