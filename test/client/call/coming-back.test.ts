import { expect, it, onTestFinished, vi } from 'vitest'
import { LiveCall } from '../../../client/call/live-call.ts'
import type { CallsAbout } from '../../../client/core/calls.ts'
import type { OracleClient } from '../../../client/core/client.ts'
import { OracleError } from '../../../client/core/error.ts'
import { fakeBrowser } from './browser.ts'
import { keyOf, print, sdp } from './oracle-key.ts'

// How soon a page calls again once its process is gone. All of that is waiting, so it is counted on a clock that the test moves: a busy
// machine makes none of it longer. What comes on top, a call that is set up, is measured on a page (call-coming-back.test.ts).
const key = keyOf()
const about: CallsAbout = {
  hearing: { by: 'typed', where: 'device', name: 'typed' },
  voice: { by: 'none', where: 'device', name: 'none', voices: [] },
  ...{ video: false, iceServers: [], minutesLeft: 120 },
  limits: { minutes: 30, minutesPerDay: 120, idleSeconds: 120 },
}
interface FakeChannel {
  readonly readyState: string
  onopen?: () => void
  send(): void
}

const settled = async () => {
  for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve))
}

/** A page in a call with an oracle that a test can kill: what it is asked afterwards fails, or is answered by another process. */
async function calling(isReplaced: boolean) {
  fakeBrowser()
  let [isAlive, calls] = [true, 0]
  const asked: number[] = []
  const ends: (string | undefined)[] = []
  const channels: FakeChannel[] = []
  // A connection without a network: packets come from the process as long as it lives.
  const peer = class {
    readonly localDescription = { sdp: sdp('AA') }
    readonly #isOfFirst = ++calls === 1
    #packets = 0
    createDataChannel() {
      const channel: FakeChannel = { readyState: 'open', send() {} }
      channels.push(channel)
      return channel
    }
    addTransceiver() {}
    // A page whose browser does not tell what it plays.
    getReceivers = () => [{}]
    async setLocalDescription() {}
    async setRemoteDescription() {
      channels.at(-1)?.onopen?.()
    }
    async getStats() {
      if (isAlive || !this.#isOfFirst) this.#packets++
      return new Map([['sound', { type: 'inbound-rtp', packetsReceived: this.#packets }]])
    }
    close() {}
  }
  Object.assign(globalThis, { RTCPeerConnection: peer })
  const request = async (_: string, path: string) => {
    if (path !== '/calls') return {}
    asked.push(Date.now())
    if (!isAlive && !isReplaced) throw new OracleError('network', 'Nobody answers.')
    const callId = `c${asked.length}`
    const lines = ['oracle-call-v1', callId, 's', print('AA'), print('BB')].join('\n')
    const proof = { did: key.did, key: key.did, signature: key.signed(lines) }
    return { callId, sdp: sdp('BB'), proof }
  }
  const config = () => ({ read: async () => ({ apiUrl: 'https://api.example' }) })
  vi.useFakeTimers({
    toFake: ['setTimeout', 'setInterval', 'clearTimeout', 'clearInterval', 'Date'],
  })
  onTestFinished(() => void vi.useRealTimers())
  const call = new LiveCall({
    ...{ client: { request, config } as unknown as OracleClient, oracleDid: key.did, about },
    ...{ overrides: {}, context: new AudioContext(), tell() {} },
    call: { callType: 'audio', sessionId: 's', userDid: 'did:key:z', microphone: false },
    onEnd: (by, error) => ends.push(by, error?.code),
  })
  await call.begin()
  const wait = async (ms: number) => {
    for (let at = 0; at < ms; at += 10) {
      vi.advanceTimersByTime(10)
      await settled()
    }
  }
  /** The process dies. Resolves to when the page asked for another call, in milliseconds from then. */
  const kill = async (afterMs: number, waitedMs: number) => {
    await wait(afterMs)
    isAlive = false
    const at = Date.now()
    await wait(waitedMs)
    return asked.slice(1).map((one) => one - at)
  }
  return { call, kill, ends, wait }
}

it.each([0, 90, 240])(
  'a page asks for its call 3 to 3.5 s after its process was killed (%i)',
  async (ms) => {
    const { call, kill, ends, wait } = await calling(true)
    const [first, ...others] = await kill(2_000 + ms, 4_000)
    expect(first).toBeGreaterThan(2_700)
    expect(first).toBeLessThanOrEqual(3_500)
    // It is connected to the other process, and stays so.
    await wait(5_000)
    expect([others, ends]).toEqual([[], []])
    call.hangUp()
  },
)

it('where nobody answers it asks five times, with longer and longer pauses, and gives up', async () => {
  const { kill, ends } = await calling(false)
  const [first = 0, ...others] = await kill(2_000, 20_000)
  expect(others.map((at) => Math.round((at - first) / 100) * 100)).toEqual([
    1_000, 3_000, 7_000, 15_000,
  ])
  expect(ends).toEqual(['lost', 'call_failed'])
})
