import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { setTimeout as rest } from 'node:timers/promises'
import type { Browser } from 'playwright-core'
import { beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest'
import { definePlugin, type Database } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import calls from '../../plugins/calls/index.ts'
import { portsOfCall } from '../../plugins/calls/media/ports.ts'
import { withCallsTables } from '../../plugins/calls/tables.ts'
import playground from '../../plugins/playground/index.ts'
import { builtPage } from '../support/built-page.ts'
import { beeps } from '../support/calling-voice.ts'
import { describeWith } from '../support/services.ts'
import { UdpForwarder } from '../support/udp-forwarder.ts'
import { CallingPage, launchMortal } from './calling/calling-page.ts'

const patient = { timeout: 120_000, interval: 50 }
const sentences = Array.from({ length: 40 }, (_, i) => `Sentence ${i} is said only once.`)
/** As many ports as two calls take: a page that comes back needs its own before those of the lost call are free. */
const ports = { from: 46_100, count: portsOfCall({ isLocal: true }) }

/** Whether all ports of a call can be opened by somebody else. */
async function areFree(): Promise<boolean> {
  for (let port = ports.from; port < ports.from + 2 * ports.count; port++) {
    const socket = createSocket('udp4')
    const isOpen = await new Promise<boolean>((resolve) => {
      socket.once('error', () => resolve(false))
      socket.bind(port, '127.0.0.1', () => resolve(true))
    })
    if (!isOpen) return false
    socket.close()
    await once(socket, 'close')
  }
  return true
}

/** An oracle that has the ports of one call, and a network for sound in front of it. */
async function begin(browser: Browser) {
  const inside: { db?: Database } = {}
  const insider = definePlugin({
    name: 'insider',
    summary: 'Reads every table.',
    visibility: 'silent',
    setup: ({ db }) => void Object.assign(inside, { db }),
  })
  const app = await testApp({
    plugins: [playground, calls, insider],
    model: scriptedModel([sentences.join(' ')]),
    env: {
      NODE_ENV: 'development',
      CALLS_PORTS: `${ports.from}-${ports.from + 2 * ports.count - 1}`,
      CALLS_VOICE: 'command',
      CALLS_VOICE_COMMAND: beeps('--soft', '--pitch'),
      CALLS_HEARING: 'typed',
    },
  })
  onTestFinished(() => app.close())
  const forwarder = new UdpForwarder()
  onTestFinished(() => forwarder[Symbol.asyncDispose]())
  const caller = await CallingPage.open(browser, app.url, (context) =>
    context.route('**/calls', async (route) => {
      if (route.request().method() !== 'POST') return route.fallback()
      const response = await route.fetch()
      const body = await response.json()
      if (response.status() !== 201) return route.fulfill({ response, json: body })
      // The proof is of the two certificates: another way to the oracle is no other oracle.
      await route.fulfill({ response, json: { ...body, sdp: await forwarder.behind(body.sdp) } })
    }),
  )
  await caller.call()
  await caller.type('Tell me.')
  await caller.hears(10)
  const rows = () =>
    withCallsTables(inside.db!)
      .selectFrom('calls_calls')
      .selectAll()
      .orderBy('created_at')
      .orderBy('started_at')
      .execute()
  return { app, forwarder, caller, rows }
}

/** The sentences of which a page has heard words since then, in their order. */
async function heardBy(caller: CallingPage, since = 0): Promise<number[]> {
  const words = await caller.words(since)
  return [...new Set(words.map(({ hz }) => Math.round((hz - 300) / 100)))]
}

await describeWith('chromium', 'a page that is gone for a while', (program) => {
  let mortal: Awaited<ReturnType<typeof launchMortal>>
  beforeAll(() => builtPage(), 240_000)
  beforeEach(async () => {
    mortal = await launchMortal(program)
    onTestFinished(() => mortal.close())
  })

  it('because the network is away for ten seconds: it calls again, and hears the rest', async () => {
    const { forwarder, caller, rows } = await begin(mortal.browser)
    const before = (await heardBy(caller)).at(-1)!
    forwarder.isOff = true
    await rest(10_000)
    const at = await caller.now()
    forwarder.isOff = false
    await caller.page.getByText('Speaking.').waitFor()
    await caller.hears(12, at)
    const after = await heardBy(caller, at)
    // Two seconds are said to a page before it counts as away.
    expect(after[0]).toBeGreaterThanOrEqual(before)
    expect(after[0]).toBeLessThanOrEqual(before + 2)
    expect(after).toEqual(after.map((_, i) => after[0]! + i))
    const [first, ...others] = await rows()
    expect(first?.ended_by).toBeOneOf(['lost', 'replaced'])
    expect(others.at(-1)).toMatchObject({ state: 'active' })
    await caller.hangUp()
  }, 200_000)

  it('because its machine sleeps for 70 seconds: the call was lost, and goes on when it wakes', async () => {
    const { caller, rows } = await begin(mortal.browser)
    const before = (await heardBy(caller)).at(-1)!
    const asleepAt = Date.now()
    mortal.signal('SIGSTOP')
    const ended = async () => (await rows())[0]?.ended_by
    await expect.poll(ended, patient).toBe('lost')
    const [{ ended_at } = { ended_at: 0 }] = await rows()
    expect(Math.abs(Number(ended_at) - asleepAt)).toBeLessThan(2_500)
    await expect.poll(areFree, patient).toBe(true)
    await rest(70_000 - (Date.now() - asleepAt))
    expect(await rows()).toHaveLength(1)
    mortal.signal('SIGCONT')
    const connected = () => caller.studio((studio) => studio.connectedAt, null)
    await expect.poll(async () => (await connected()).length, patient).toBe(2)
    const last = async () => (await heardBy(caller)).at(-1)
    await expect.poll(last, patient).toBeGreaterThan(before + 2)
    const heard = await heardBy(caller)
    // None is missing, but for those that were under way when it fell asleep.
    const missing = Array.from({ length: heard.at(-1)! }, (_, i) => i).filter(
      (one) => !heard.includes(one),
    )
    for (const one of missing) expect(Math.abs(one - before)).toBeLessThanOrEqual(2)
    expect(missing.length).toBeLessThanOrEqual(1)
    expect((await rows()).at(-1)).toMatchObject({ state: 'active' })
    await caller.hangUp()
  }, 300_000)

  it('because its browser was killed: the call is lost, its ports are free, and its minutes end with its last sign of life', async () => {
    const { app, caller, rows } = await begin(mortal.browser)
    expect(await areFree()).toBe(false)
    const { headers } = caller
    const killedAt = Date.now()
    mortal.signal('SIGKILL')
    const ended = async () => (await rows())[0]?.ended_by
    await expect.poll(ended, patient).toBe('lost')
    expect(Date.now() - killedAt).toBeGreaterThan(4_000)
    const [{ ended_at, started_at } = { ended_at: 0, started_at: 0 }] = await rows()
    expect(Math.abs(Number(ended_at) - killedAt)).toBeLessThan(2_500)
    await expect.poll(areFree, patient).toBe(true)
    const about = await (await fetch(`${app.url}/calls`, { headers })).json()
    const spent = (Number(ended_at) - Number(started_at)) / 60_000
    expect(about).toMatchObject({ calls: [], minutesLeft: Math.floor(120 - spent) })
  }, 200_000)
})
