import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { definePlugin } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { createWallet } from '../core/testing/wallet.ts'
import calls from '../plugins/calls/index.ts'
import { espeakVoice } from '../plugins/calls/speech/command.ts'
import { Resampler } from '../plugins/calls/speech/resample.ts'
import { CallPeer, packetsOf } from './support/call-peer.ts'

const silenceMs = 600
const patienceMs = 20_000
const question = 'How is the weather in Nairobi today?'

/** What hears and what speaks at once: what is measured is the rest. */
const instant = definePlugin({
  name: 'instant',
  summary: 'Hears and speaks at once.',
  visibility: 'silent',
  requires: [calls],
  setup({ plugins }) {
    const tone = Int16Array.from({ length: 48_000 }, (_, i) => 9_000 * Math.sin(i / 20))
    plugins.calls.speech({
      hearing: {
        ...{ name: 'instant', where: 'server' },
        open: () => ({ push() {}, end: () => Promise.resolve({ text: question }) }),
      },
      voice: {
        ...{ name: 'instant', where: 'server' },
        async *speak() {
          yield { rate: 48_000, pcm: tone.slice() }
        },
      },
    })
  },
})

/** Runs the oracle in a process of its own, so that its time contains nothing of the callers. */
async function serve(): Promise<void> {
  const app = await testApp({
    plugins: [calls, instant],
    model: scriptedModel(Array.from({ length: 10_000 }, () => 'It is sunny.')),
    env: {
      NODE_ENV: 'test',
      CALLS_HEARING: 'instant',
      CALLS_VOICE: 'instant',
      TRUST_PROXY_ENABLED: 'true',
    },
  })
  process.on('message', () => {
    const { user, system } = process.cpuUsage()
    process.send!({ cpuMs: (user + system) / 1_000, rss: process.memoryUsage().rss })
  })
  process.on('disconnect', () => process.exit())
  process.send!({ url: app.url, oracleDid: app.oracleDid })
}

interface Cost {
  readonly cpuMs: number
  readonly rss: number
}

/** Measures what calls cost and how soon they are answered, at so many calls at once, each with so many questions. */
export async function benchCalls(print = console.log, counts = [1, 5, 10], questions = 4) {
  const server = fork(import.meta.filename, ['serve'])
  const [{ url, oracleDid }] = (await once(server, 'message')) as [
    { url: string; oracleDid: string },
  ]
  const cost = async () => {
    server.send('cost')
    return ((await once(server, 'message')) as [Cost])[0]
  }
  try {
    const silence = (await packetsOf(new Int16Array(960)))[0]!
    const words = await packetsOf(await spoken())
    await inCall({ url, oracleDid, silence }, async () => {}) // the first call imports what calls need
    for (const count of counts) {
      const setUps: number[] = []
      const replies: number[] = []
      const before = await cost()
      const from = performance.now()
      const one = async (nth: number) => {
        await sleep((nth * 3_000) / count)
        const setUp = await inCall({ url, oracleDid, silence }, async (peer) => {
          for (let i = 0; i < questions; i++) {
            await peer.say(words)
            const at = performance.now()
            await peer.hears(patienceMs)
            replies.push(performance.now() - at - silenceMs)
            await sleep(1_500)
          }
        })
        setUps.push(setUp)
      }
      await Promise.all(Array.from({ length: count }, (_, nth) => one(nth)))
      const after = await cost()
      const share = (after.cpuMs - before.cpuMs) / (performance.now() - from) / count
      print(
        `${String(count).padStart(3)} calls: ${(share * 100).toFixed(1)} % of a core a call, ` +
          `set up in ${at(setUps, 0.5)} ms, answered ${at(replies, 0.5)} ms (p90 ${at(replies, 0.9)}) ` +
          `after CALLS_SILENCE_MS, ${Math.round(after.rss / 2 ** 20)} MiB`,
      )
    }
  } finally {
    server.disconnect()
  }
}

let callers = 0

interface Oracle {
  readonly url: string
  readonly oracleDid: string
  readonly silence: Uint8Array
}

/** One call of a new user. Resolves to how long it took to set it up. */
async function inCall(
  { url, oracleDid, silence }: Oracle,
  work: (peer: CallPeer) => Promise<void>,
) {
  const wallet = await createWallet()
  // Each caller has an address of their own: one address makes ten calls a minute.
  const place = `192.0.2.${(callers = (callers % 250) + 1)}`
  const post = async (path: string, body: object) => {
    const headers = {
      ...(await wallet.headers(oracleDid)),
      ...{ 'content-type': 'application/json', 'x-forwarded-for': place },
    }
    const response = await fetch(url + path, {
      ...{ method: 'POST', headers },
      body: JSON.stringify(body),
    })
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
    return (await response.json()) as Record<string, string>
  }
  const { sessionId } = await post('/sessions', {})
  const peer = new CallPeer(silence)
  const from = performance.now()
  await peer.call(async (sdp) => {
    const answer = await post('/calls', { sessionId, callType: 'audio', sdp })
    return answer.sdp ?? ''
  })
  const setUp = performance.now() - from
  await work(peer)
  await peer.close()
  return setUp
}

async function spoken(): Promise<Int16Array> {
  const resampler = new Resampler()
  const samples: number[] = []
  const signal = AbortSignal.timeout(patienceMs)
  for await (const piece of espeakVoice().speak(question, { signal }))
    for (const sample of resampler.push(piece)) samples.push(sample)
  // Behind its last word espeak-ng is silent, and that is not to count as the person's speech.
  const end = samples.findLastIndex((sample) => Math.abs(sample) > 500)
  return Int16Array.from(samples.slice(0, end + 1))
}

const at = (values: readonly number[], share: number) =>
  Math.round(values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) * share)] ?? NaN)

if (process.argv[2] === 'serve') await serve()
else if (process.argv[1] === import.meta.filename) await benchCalls()
